#include "gateway/prompt/diagnose/json_difference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::diagnose {

using parse::JsonScanner;

namespace {

using Kind = JsonDifference::Kind;

constexpr int kDepthMax = 64;  // deeper values count as leaves
constexpr size_t kPathBytesMax = 400;
constexpr size_t kNameBytesMax = 80;

struct Item {
  std::string_view name;  // as written; empty for a list's element
  std::string_view value;
};

// Returns a value, or the remaining text if the value was cut.
std::string_view TakeValue(std::string_view text, JsonScanner& scanner, bool& whole) {
  scanner.SkipSpace();
  const uint32_t begin = scanner.at();
  const std::optional<parse::Span> value = scanner.Value();
  whole = value.has_value();
  return value ? value->In(text) : text.substr(begin);
}

std::vector<Item> ItemsOf(std::string_view text) {
  std::vector<Item> items;
  JsonScanner scanner(text);
  bool whole = true;
  if (scanner.Peek() == '{') {
    scanner.Object([&](const JsonScanner::Name& name) {
      const std::string_view value = TakeValue(text, scanner, whole);
      items.push_back({name.span.In(text), value});
      return whole;
    });
  } else {
    scanner.List([&] {
      items.push_back({{}, TakeValue(text, scanner, whole)});
      return whole;
    });
  }
  return items;
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '$';
  });
}

std::string MemberStep(std::string_view name) {
  const std::string_view cut = name.substr(0, kNameBytesMax);
  return IsPlainName(name) ? "." + std::string(cut) : "[\"" + std::string(cut) + "\"]";
}

char FirstOf(std::string_view value) { return value.empty() ? '\0' : value.front(); }

class Finder {
 public:
  JsonDifference Run(std::string_view before, std::string_view after) {
    JsonScanner first(before);
    JsonScanner second(after);
    bool whole = true;
    Differs(TakeValue(before, first, whole), TakeValue(after, second, whole), "", 0);
    return std::move(found_);
  }

 private:
  bool Differs(std::string_view before, std::string_view after, const std::string& path,
               int depth) {
    if (before == after) return false;
    const char first = FirstOf(before);
    if (first != FirstOf(after) || (first != '{' && first != '[') || depth >= kDepthMax ||
        path.size() > kPathBytesMax) {
      return Found(Kind::kValue, path, before, after);
    }
    const std::vector<Item> left = ItemsOf(before);
    const std::vector<Item> right = ItemsOf(after);
    return first == '{' ? MembersDiffer(left, right, path, depth)
                        : ElementsDiffer(left, right, path, depth);
  }

  bool ElementsDiffer(const std::vector<Item>& before, const std::vector<Item>& after,
                      const std::string& path, int depth) {
    for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
      const std::string at = path + "[" + std::to_string(i) + "]";
      if (i >= before.size()) return Found(Kind::kAdded, at, {}, after[i].value);
      if (i >= after.size()) return Found(Kind::kRemoved, at, before[i].value, {});
      if (Differs(before[i].value, after[i].value, at, depth + 1)) return true;
    }
    return false;
  }

  bool MembersDiffer(const std::vector<Item>& before, const std::vector<Item>& after,
                     const std::string& path, int depth) {
    const auto has = [](const std::vector<Item>& items, std::string_view name) {
      return std::any_of(items.begin(), items.end(),
                         [&](const Item& item) { return item.name == name; });
    };
    for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
      if (i < before.size() && i < after.size() && before[i].name == after[i].name) {
        const std::string at = path + MemberStep(after[i].name);
        if (Differs(before[i].value, after[i].value, at, depth + 1)) return true;
        continue;
      }
      if (i < after.size() && !has(before, after[i].name)) {
        return Found(Kind::kAdded, path + MemberStep(after[i].name), {}, after[i].value);
      }
      if (i < before.size() && !has(after, before[i].name)) {
        return Found(Kind::kRemoved, path + MemberStep(before[i].name), before[i].value, {});
      }
      return Found(Kind::kReordered, path, i < before.size() ? before[i].name : "",
                   i < after.size() ? after[i].name : "");
    }
    return false;
  }

  bool Found(Kind kind, const std::string& path, std::string_view before, std::string_view after) {
    found_ = {.kind = kind, .path = path, .before = before, .after = after};
    return true;
  }

  JsonDifference found_;
};

}  // namespace

JsonDifference FindJsonDifference(std::string_view before, std::string_view after) {
  return Finder().Run(before, after);
}

std::string_view FindJsonValue(std::string_view json, std::string_view dotted_path) {
  JsonScanner scanner(json);
  bool whole = true;
  std::string_view value = TakeValue(json, scanner, whole);
  while (!dotted_path.empty() && FirstOf(value) == '{') {
    const size_t dot = std::min(dotted_path.find('.'), dotted_path.size());
    const std::string_view name = dotted_path.substr(0, dot);
    dotted_path.remove_prefix(std::min(dot + 1, dotted_path.size()));
    const std::vector<Item> items = ItemsOf(value);
    const auto found = std::find_if(items.begin(), items.end(), [&](const Item& item) {
      return parse::NameIs(item.name, name);
    });
    if (found == items.end()) return {};
    value = found->value;
  }
  return dotted_path.empty() ? value : std::string_view();
}

}  // namespace kvgate::prompt::diagnose
