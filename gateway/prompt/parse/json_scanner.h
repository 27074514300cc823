// JsonScanner walks over JSON text and reports where its values lie. It builds no tree and
// unescapes nothing; each byte is read once, those of strings at memchr's speed. Skipped text is
// checked for quotes and brackets only; `canonical` parses what is new in full. Pure; any thread.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

class JsonScanner {
 public:
  // `text` must outlive the scanner and be at most 4 GiB long.
  explicit JsonScanner(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  uint32_t at() const { return static_cast<uint32_t>(at_); }
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  // Returns the next byte that is no white space; 0 at the end.
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Skips a string with its quotes, or any value; nullopt if there is none, or if it does not end.
  std::optional<Span> String();
  std::optional<Span> Value();

  // A member's raw name without its quotes, and the position of the comma in front of it.
  struct Name {
    Span span;
    std::optional<uint32_t> comma;
  };
  // Calls `on_member(Name)` for each member; it must skim the value, and return false if it does
  // not understand it. Returns false if the object is incomplete or a member was refused.
  template <typename OnMember>
  bool Object(OnMember on_member) {
    if (!Take('{')) return false;
    if (Take('}')) return true;
    std::optional<uint32_t> comma;
    while (true) {
      SkipSpace();
      const std::optional<Span> name = String();
      if (!name || !Take(':')) return false;
      SkipSpace();
      if (!on_member(Name{{name->begin + 1, name->end - 1}, comma})) return false;
      if (Take('}')) return true;
      if (Peek() != ',') return false;
      comma = at();
      ++at_;
    }
  }
  // Calls `on_element()` for each element, which it must skim. An `opening` of ',' continues inside
  // a list.
  template <typename OnElement>
  bool List(OnElement on_element) {
    return List('[', on_element);
  }
  template <typename OnElement>
  bool List(char opening, OnElement on_element) {
    if (!Take(opening)) return false;
    if (opening == '[' && Take(']')) return true;
    while (true) {
      SkipSpace();
      if (!on_element()) return false;
      if (Take(']')) return true;
      if (!Take(',')) return false;
    }
  }

  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

 private:
  bool SkipString();
  bool SkipNested();

  std::string_view text_;
  size_t at_;
};

// Appends the text of a quoted JSON string; a lone surrogate becomes three bytes. If `offsets` is
// given, it gets each text byte's offset in `json`, and that of the closing quote. Returns false if
// `json` is no JSON string.
bool DecodeString(std::string_view json, std::string& text,
                  std::vector<uint32_t>* offsets = nullptr);

// Returns the decoded text of a JSON string, and any other value as it is written.
std::string TextOrJson(std::string_view value);

// Returns true if the raw name of a member spells `key`.
bool NameIs(std::string_view raw, std::string_view key);

// Returns the span of a member with one comma and its spaces: the comma in front of it, or, if
// `first` says that no remaining member stands in front, the one behind it.
Span MemberSpan(std::string_view text, const JsonScanner::Name& name, uint32_t value_end,
                bool first);

}  // namespace kvgate::prompt::parse
