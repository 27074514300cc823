#include "gateway/cli/agents/config_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace kvgate::cli::agents {
namespace {

using Json = nlohmann::json;

constexpr size_t kContextLines = 2;
// Beyond so many pairs of lines a diff shows everything between the first and the last change.
constexpr size_t kPairsMax = size_t{4} << 20;

Error Unreadable(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "cli", std::move(detail));
}

// Finds members in the text of a JSON document that is known to be well-formed.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  struct Span {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Object {
    std::optional<Span> member;  // the wanted member's value
    size_t behind_last = 0;      // behind the last member's value, else behind the brace
    bool is_empty = true;
  };

  // REQUIRES: an object begins at `at`.
  Object Find(size_t at, std::string_view name) {
    Object object{.member = {}, .behind_last = at + 1};
    position_ = at + 1;
    for (Skip(); text_[position_] != '}'; Skip()) {
      if (text_[position_] == ',') {
        ++position_;
        continue;
      }
      const Span key = Value();
      Skip();
      ++position_;  // the colon
      Skip();
      const Span value = Value();
      const Json read = Json::parse(text_.substr(key.begin, key.end - key.begin), nullptr, false);
      if (read.is_string() && read.get_ref<const std::string&>() == name) object.member = value;
      object.behind_last = value.end;
      object.is_empty = false;
    }
    return object;
  }

  // The first byte that is neither space nor comment.
  size_t Begin() {
    position_ = 0;
    Skip();
    return position_;
  }

 private:
  void Skip() {
    while (position_ < text_.size()) {
      const std::string_view rest = text_.substr(position_);
      if (std::isspace(static_cast<unsigned char>(rest.front())) != 0) {
        ++position_;
      } else if (rest.starts_with("//")) {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (rest.starts_with("/*")) {
        position_ = text_.find("*/", position_ + 2) + 2;
      } else {
        return;
      }
    }
  }

  void String() {
    for (++position_; text_[position_] != '"'; ++position_) {
      if (text_[position_] == '\\') ++position_;
    }
    ++position_;
  }

  Span Value() {
    const size_t begin = position_;
    int depth = 0;
    do {
      const char byte = text_[position_];
      if (byte == '"') {
        String();
      } else if (byte == '{' || byte == '[') {
        ++depth;
        ++position_;
      } else if (byte == '}' || byte == ']') {
        --depth;
        ++position_;
      } else if (depth > 0) {
        if (byte == ',' || byte == ':') ++position_;
        const size_t before = position_;
        Skip();
        if (position_ == before && byte != ',' && byte != ':') ++position_;
      } else {
        position_ = text_.find_first_of(",}] \t\r\n/", position_);
        if (position_ == std::string_view::npos) position_ = text_.size();
      }
    } while (depth > 0);
    return {.begin = begin, .end = position_};
  }

  std::string_view text_;
  size_t position_ = 0;
};

// The spaces in front of the first member: how deep the file's owner indents.
std::string IndentOf(std::string_view text, size_t brace) {
  const size_t line = text.find('\n', brace);
  if (line == std::string_view::npos) return "  ";
  const size_t first = text.find_first_not_of(" \t", line + 1);
  if (first == std::string_view::npos || first == line + 1 || text[first] != '"') return "  ";
  return std::string(text.substr(line + 1, first - line - 1));
}

std::string Repeated(const std::string& text, size_t count) {
  std::string repeated;
  for (size_t i = 0; i < count; ++i) repeated += text;
  return repeated;
}

// `"a": {` … for the names that are missing, and the value behind the last one.
std::string MemberText(std::span<const std::string> names, const Json& value,
                       const std::string& indent, size_t depth) {
  const std::string key = Json(names.front()).dump() + ": ";
  if (names.size() > 1) {
    return fmt::format("{}{{\n{}{}\n{}}}", key, Repeated(indent, depth + 1),
                       MemberText(names.subspan(1), value, indent, depth + 1),
                       Repeated(indent, depth));
  }
  if (!value.is_object() || value.empty()) return key + value.dump();
  std::string text = key + "{";
  for (const auto& [name, member] : value.items()) {
    text += text.ends_with('{') ? "\n" : ",\n";
    text += Repeated(indent, depth + 1);
    text += MemberText(std::span<const std::string>(&name, 1), member, indent, depth + 1);
  }
  return text + "\n" + Repeated(indent, depth) + "}";
}

Result<std::string> SetMember(std::string text, const ConfigEdit& edit) {
  const std::span<const std::string> names(edit.at);
  size_t brace = JsonText(text).Begin();
  const std::string indent = IndentOf(text, brace);
  for (size_t depth = 0; depth < names.size(); ++depth) {
    const JsonText::Object object = JsonText(text).Find(brace, names[depth]);
    if (!object.member) {
      const std::string member = MemberText(names.subspan(depth), edit.to, indent, depth + 1);
      const std::string before = object.is_empty ? "\n" : ",\n";
      const std::string behind = object.is_empty ? "\n" + Repeated(indent, depth) : "";
      const size_t closing = text.find('}', object.behind_last);
      if (object.is_empty && text.substr(object.behind_last, closing - object.behind_last)
                                     .find_first_not_of(" \t\r\n") == std::string::npos) {
        text.erase(object.behind_last, closing - object.behind_last);
      }
      text.insert(object.behind_last, before + Repeated(indent, depth + 1) + member + behind);
      return text;
    }
    const auto [begin, end] = *object.member;
    if (depth + 1 == names.size()) return text.replace(begin, end - begin, edit.to.dump());
    if (text[begin] != '{') {
      return Unreadable(fmt::format("its \"{}\" is no object, and would have to be one",
                                    fmt::join(names.first(depth + 1), ".")));
    }
    brace = begin;
  }
  return text;
}

Result<std::string> ApplyToJson(std::string_view text, const std::vector<ConfigEdit>& edits) {
  std::string edited(text);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) edited = "{\n}\n";
  if (!Json::parse(edited, nullptr, false, true).is_object()) {
    return Unreadable("it is no JSON object that can be read");
  }
  for (const ConfigEdit& edit : edits) {
    KVGATE_TRY(edited, SetMember(std::move(edited), edit));
  }
  return edited;
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// True if the line sets this name.
bool Sets(std::string_view line, std::string_view name, char separator) {
  if (!line.starts_with(name)) return false;
  line.remove_prefix(name.size());
  const size_t at = line.find_first_not_of(" \t");
  return at != std::string_view::npos && line[at] == separator;
}

Result<std::string> ApplyToLines(std::string_view text, ConfigFormat format,
                                 const std::vector<ConfigEdit>& edits) {
  const bool is_toml = format == ConfigFormat::kToml;
  const char separator = is_toml ? '=' : ':';
  std::string edited(text);
  for (const ConfigEdit& edit : edits) {
    const std::string& name = edit.at.front();
    const std::string line = fmt::format("{}{} {}\n", name, is_toml ? " =" : ":", edit.to.dump());
    std::string next;
    bool is_set = false;
    bool is_top = true;
    for (const std::string_view old : LinesOf(edited)) {
      // Names behind a table's head are the table's.
      is_top = is_top && !(is_toml && old.starts_with('['));
      const bool is_meant = is_top && !is_set && Sets(old, name, separator);
      next += is_meant ? std::string_view(line) : old;
      is_set = is_set || is_meant;
    }
    if (!is_set && is_toml) next.insert(0, line);
    if (!is_set && !is_toml) {
      if (!next.empty() && !next.ends_with('\n')) next += '\n';
      next += line;
    }
    edited = std::move(next);
  }
  return edited;
}

// For each line of either text, whether it is in both: the longest common subsequence.
struct Kept {
  std::vector<bool> before;
  std::vector<bool> after;
};
Kept FindKept(const std::vector<std::string_view>& before,
              const std::vector<std::string_view>& after) {
  Kept kept{.before = std::vector<bool>(before.size()), .after = std::vector<bool>(after.size())};
  size_t first = 0;
  const auto keep = [&](size_t a, size_t b) { kept.before[a] = kept.after[b] = true; };
  while (first < before.size() && first < after.size() && before[first] == after[first]) {
    keep(first, first);
    ++first;
  }
  size_t end_a = before.size();
  size_t end_b = after.size();
  while (end_a > first && end_b > first && before[end_a - 1] == after[end_b - 1]) {
    keep(--end_a, --end_b);
  }
  const size_t rows = end_a - first;
  const size_t columns = end_b - first;
  if (rows == 0 || columns == 0 || rows > kPairsMax / columns) return kept;
  std::vector<uint32_t> length((rows + 1) * (columns + 1));
  const auto at = [&](size_t a, size_t b) -> uint32_t& { return length[a * (columns + 1) + b]; };
  for (size_t a = rows; a-- > 0;) {
    for (size_t b = columns; b-- > 0;) {
      at(a, b) = before[first + a] == after[first + b] ? at(a + 1, b + 1) + 1
                                                       : std::max(at(a + 1, b), at(a, b + 1));
    }
  }
  for (size_t a = 0, b = 0; a < rows && b < columns;) {
    if (before[first + a] == after[first + b]) {
      keep(first + a++, first + b++);
    } else if (at(a + 1, b) >= at(a, b + 1)) {
      ++a;
    } else {
      ++b;
    }
  }
  return kept;
}

}  // namespace

Result<std::string> ApplyEdits(std::string_view text, ConfigFormat format,
                               const std::vector<ConfigEdit>& edits) {
  if (format == ConfigFormat::kJson) return ApplyToJson(text, edits);
  return ApplyToLines(text, format, edits);
}

std::vector<std::string> DiffLines(std::string_view before, std::string_view after) {
  if (before == after) return {};
  const std::vector<std::string_view> old_lines = LinesOf(before);
  const std::vector<std::string_view> new_lines = LinesOf(after);
  const Kept kept = FindKept(old_lines, new_lines);
  struct Line {
    char mark;
    std::string_view text;
  };
  std::vector<Line> lines;
  for (size_t a = 0, b = 0; a < old_lines.size() || b < new_lines.size();) {
    if (a < old_lines.size() && !kept.before[a]) {
      lines.push_back({'-', old_lines[a++]});
    } else if (b < new_lines.size() && !kept.after[b]) {
      lines.push_back({'+', new_lines[b++]});
    } else {
      lines.push_back({' ', old_lines[a++]});
      ++b;
    }
  }
  std::vector<std::string> shown;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t from = i < kContextLines ? 0 : i - kContextLines;
    const size_t to = std::min(i + kContextLines + 1, lines.size());
    const bool is_near = std::any_of(lines.begin() + static_cast<ptrdiff_t>(from),
                                     lines.begin() + static_cast<ptrdiff_t>(to),
                                     [](const Line& line) { return line.mark != ' '; });
    if (!is_near) continue;
    std::string_view text = lines[i].text;
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    shown.push_back(fmt::format("{}{}", lines[i].mark, text));
  }
  return shown;
}

}  // namespace kvgate::cli::agents
