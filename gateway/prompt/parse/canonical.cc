#include "gateway/prompt/parse/canonical.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/digest.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::parse {
namespace {

// Strings in these members are read as text; ids and names never count as volatile.
constexpr std::array<std::string_view, 6> kTextKeys = {"text",     "content",     "output",
                                                       "thinking", "description", "instructions"};

bool IsTextKey(std::string_view key) {
  return std::find(kTextKeys.begin(), kTextKeys.end(), key) != kTextKeys.end();
}

bool IsUntouched(Content content) {
  return content == Content::kMedia || content == Content::kToolCall ||
         content == Content::kThinking;
}

// Returns sign, digits without leading and trailing zeros, and exponent; exact at any length.
// Returns nullopt if `number` is no JSON number.
std::optional<std::string> CanonicalNumber(std::string_view number) {
  std::string out = "n";
  size_t at = 0;
  if (at < number.size() && number[at] == '-') out += number[at++];
  const auto digits = [&](std::string& into) {
    const size_t begin = at;
    while (at < number.size() && number[at] >= '0' && number[at] <= '9') into += number[at++];
    return at > begin;
  };
  std::string whole;
  std::string fraction;
  if (!digits(whole) || (whole.size() > 1 && whole[0] == '0')) return std::nullopt;
  if (at < number.size() && number[at] == '.') {
    ++at;
    if (!digits(fraction)) return std::nullopt;
  }
  int64_t exponent = 0;
  if (at < number.size() && (number[at] == 'e' || number[at] == 'E')) {
    ++at;
    const bool negative = at < number.size() && number[at] == '-';
    if (at < number.size() && (number[at] == '-' || number[at] == '+')) ++at;
    std::string power;
    if (!digits(power)) return std::nullopt;
    if (power.size() > 15) return "r" + std::string(number);  // too large: compared as spelled
    std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (negative) exponent = -exponent;
  }
  if (at != number.size()) return std::nullopt;
  std::string all = whole + fraction;
  exponent -= static_cast<int64_t>(fraction.size());
  while (!all.empty() && all.back() == '0') {
    all.pop_back();
    ++exponent;
  }
  all.erase(0, std::min(all.find_first_not_of('0'), all.size()));
  if (all.empty()) return out + "0";
  return out + all + "e" + std::to_string(exponent);
}

void FoldNewlines(std::string& text) {
  size_t found = text.find("\r\n");
  if (found == std::string::npos) return;
  size_t out = found;
  for (size_t i = found; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[out++] = text[i];
  }
  text.resize(out);
}

struct Counts {
  size_t text_bytes = 0;
  bool has_volatile = false;
  bool text_left = false;  // text remains after volatile spans are cut
  bool is_tagged = true;   // so are all such texts
  Identity said;           // of such texts, without volatile spans
};

// Appends the canonical text of one value to `out`.
class Writer {
 public:
  Writer(std::string_view json, Content content, const CanonicalForm& form, std::string& out)
      : json_(json),
        content_(content),
        fold_(form.newlines_folded && !IsUntouched(content)),
        cut_(form.cut),
        scanner_(json),
        out_(out) {}

  bool Run() {
    const bool is_text = !IsUntouched(content_);
    if (!Value(is_text, false, 0) || scanner_.Peek() != '\0') return false;
    return scanner_.at() == json_.size();
  }
  const Counts& counts() const { return counts_; }

  // A first pass can keep the texts that it reads, in order and without volatile spans; a second
  // pass takes them from there, so that it need not search for volatile spans again.
  void KeepTexts(std::vector<std::string>& texts) { kept_ = &texts; }
  void KeepWholeTexts(std::vector<std::string>& texts) { whole_ = &texts; }
  void TakeTexts(const std::vector<std::string>& texts) { taken_ = &texts; }

 private:
  void Sized(char tag, std::string_view bytes) {
    std::array<char, 24> size{};
    const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size()).ptr;
    out_ += tag;
    out_.append(size.data(), end - size.data());
    out_ += ':';
    out_.append(bytes);
  }

  bool Value(bool is_text, bool is_arguments, int depth) {
    if (depth > kDepthMax) return false;
    switch (scanner_.Peek()) {
      case '{':
        return Object(depth);
      case '[':
        return List(is_text, depth);
      case '"':
        return String(is_text, is_arguments, depth);
      default:
        return Scalar();
    }
  }

  bool Scalar() {
    const std::optional<Span> span = scanner_.Value();
    if (!span) return false;
    const std::string_view text = span->In(json_);
    counts_.text_bytes += text.size();
    if (text == "true" || text == "false" || text == "null") {
      out_ += text[0];
      return true;
    }
    const std::optional<std::string> number = CanonicalNumber(text);
    if (number) Sized('#', *number);
    return number.has_value();
  }

  bool String(bool is_text, bool is_arguments, int depth) {
    const std::optional<Span> span = scanner_.String();
    if (!span) return false;
    if (is_text && taken_ != nullptr) {
      Sized('s', (*taken_)[num_taken_++]);
      return true;
    }
    std::string text;
    if (!DecodeString(span->In(json_), text)) return false;
    counts_.text_bytes += text.size();
    if (is_arguments && Arguments(text, depth)) return true;
    if (fold_) FoldNewlines(text);
    if (is_text) ReadText(text);
    Sized('s', text);
    return true;
  }

  void ReadText(std::string& text) {
    if (whole_ != nullptr) whole_->push_back(text);
    std::vector<VolatileSpan> spans = FindVolatile(text);
    counts_.has_volatile = counts_.has_volatile || !spans.empty();
    if (cut_ == Cut::kHeld) {
      std::erase_if(spans, [](const VolatileSpan& span) { return !MayBeHeld(span); });
    }
    std::string cut;
    if (!spans.empty()) cut = CutVolatile(text, spans);
    const std::string& left = spans.empty() ? text : cut;
    counts_.text_left = counts_.text_left || HasText(left);
    if (content_ == Content::kText) {
      counts_.is_tagged = counts_.is_tagged && IsTagged(text);
      counts_.said = Chain(counts_.said, HashBytes(left, Domain::kStable));
    }
    if (kept_ != nullptr) kept_->push_back(left);
    if (!spans.empty() && cut_ != Cut::kNone) text = std::move(cut);
  }
  static bool HasText(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") != std::string_view::npos;
  }

  // A call's arguments are JSON in a string. Returns false and writes nothing if `text` holds no
  // object.
  bool Arguments(const std::string& text, int depth) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || text[first] != '{') return false;
    const size_t size = out_.size();
    out_ += 'a';
    Writer inside(text, Content::kToolCall, CanonicalForm{}, out_);
    if (depth < kDepthMax / 2 && inside.Nested(depth + 1)) return true;
    out_.resize(size);
    return false;
  }
  bool Nested(int depth) {
    return Value(false, false, depth) && scanner_.Peek() == '\0' && scanner_.at() == json_.size();
  }

  bool List(bool is_text, int depth) {
    out_ += '[';
    const bool whole = scanner_.List([&] { return Value(is_text, false, depth + 1); });
    out_ += ']';
    return whole;
  }

  struct Member {
    std::string key;
    size_t begin;  // of its value's text in out_
    size_t end;
  };
  bool Object(int depth) {
    std::vector<Member> members;
    out_ += '{';
    const size_t begin = out_.size();
    const bool whole = scanner_.Object([&](const JsonScanner::Name& name) {
      Member& member = members.emplace_back();
      const std::string_view quoted = json_.substr(name.span.begin - 1, name.span.size() + 2);
      if (!DecodeString(quoted, member.key)) return false;
      counts_.text_bytes += member.key.size();
      member.begin = out_.size();
      const bool text_inside = !IsUntouched(content_) && IsTextKey(members.back().key);
      const bool arguments = content_ == Content::kToolCall && members.back().key == "arguments";
      if (!Value(text_inside, arguments, depth + 1)) return false;
      members.back().end = out_.size();
      return true;
    });
    if (!whole) return false;
    Sort(members, begin);
    out_ += '}';
    return true;
  }
  // Members with equal names keep their order, because the reader chooses which of them counts.
  void Sort(std::vector<Member>& members, size_t begin) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    const std::string values = out_.substr(begin);
    out_.resize(begin);
    for (const Member& member : members) {
      Sized('k', member.key);
      out_.append(values, member.begin - begin, member.end - member.begin);
    }
  }

  std::string_view json_;
  Content content_;
  bool fold_;
  Cut cut_;
  JsonScanner scanner_;
  std::string& out_;
  Counts counts_;
  std::vector<std::string>* kept_ = nullptr;
  std::vector<std::string>* whole_ = nullptr;
  const std::vector<std::string>* taken_ = nullptr;
  size_t num_taken_ = 0;
};

// A token is about four bytes of text. An image's cost does not follow from its bytes, so it is
// capped.
constexpr uint32_t kMediaTokens = 1500;
uint32_t EstimateTokens(Content content, size_t text_bytes) {
  const auto by_bytes = static_cast<uint32_t>((text_bytes + 3) / 4);
  return content == Content::kMedia ? std::min(by_bytes, kMediaTokens) : by_bytes;
}

}  // namespace

std::optional<std::string> CanonicalText(std::string_view json, Content content,
                                         const CanonicalForm& form,
                                         std::vector<std::string>* texts) {
  std::string out;
  Writer writer(json, content, form, out);
  if (texts != nullptr) writer.KeepWholeTexts(*texts);
  if (!writer.Run()) return std::nullopt;
  return out;
}

std::optional<CanonicalFacts> ReadCanonical(std::string_view json, Content content) {
  std::string out;
  out.reserve(json.size() + 64);
  Writer writer(json, content, {}, out);
  std::vector<std::string> texts;
  writer.KeepTexts(texts);
  if (!writer.Run()) return std::nullopt;
  const Counts& counts = writer.counts();
  CanonicalFacts facts;
  facts.same = HashBytes(out, Domain::kSame);
  facts.stable = HashBytes(out, Domain::kStable);
  facts.said = counts.said;
  facts.has_volatile = counts.has_volatile;
  facts.is_volatile = content == Content::kText && !counts.text_left;
  facts.is_tagged = counts.said != Identity() && counts.is_tagged;
  facts.num_tokens = EstimateTokens(content, counts.text_bytes);
  if (counts.has_volatile) {
    out.clear();
    Writer cutting(json, content, {.newlines_folded = true, .cut = Cut::kAll}, out);
    cutting.TakeTexts(texts);
    if (!cutting.Run()) return std::nullopt;
    facts.stable = HashBytes(out, Domain::kStable);
  }
  return facts;
}

Identity HashBytes(std::string_view bytes, Domain domain) {
  const auto [low, high] =
      Xxh3(std::as_bytes(std::span(bytes.data(), bytes.size())), static_cast<uint64_t>(domain));
  return {low, high};
}

Identity Chain(const Identity& front, const Identity& back, Domain domain) {
  const std::array<uint64_t, 4> words = {front.low, front.high, back.low, back.high};
  const auto [low, high] = Xxh3(std::as_bytes(std::span(words)), static_cast<uint64_t>(domain));
  return {low, high};
}

}  // namespace kvgate::prompt::parse
