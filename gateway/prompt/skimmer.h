// Skimmer: walks over JSON text and says where its values lie. No tree, nothing is unescaped; each
// byte is looked at once, those of strings at memchr's speed. What it skips is checked for quotes
// and brackets only: `canonical` parses in full what is new. Pure; any thread.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

class Skimmer {
 public:
  // `text` outlives the skimmer and has at most 4 GiB.
  explicit Skimmer(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  uint32_t at() const { return static_cast<uint32_t>(at_); }
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  // The next byte that is no space; 0 at the end.
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    ++at_;
    return true;
  }
  // A string with its quotes, or any value; nothing: there is none, or it does not end.
  std::optional<Span> String();
  std::optional<Span> Value();

  // A member's name as it stands between its quotes, and the comma in front of it.
  struct Name {
    Span span;
    std::optional<uint32_t> comma;
  };
  // `on_member(Name)` for each member; it skims the value and returns false where that cannot be
  // understood. False: no whole object, or a member was refused.
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
  // `on_element()` for each element, which it skims. `opening` ',': from inside a list on.
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

// The text of a JSON string with its quotes, appended; lone surrogates become three bytes each.
// `offsets`, where given: for each byte of the text where in `json` it comes from, and one more for
// the closing quote. False: no JSON string.
bool DecodeString(std::string_view json, std::string& text,
                  std::vector<uint32_t>* offsets = nullptr);

// Whether the raw name of a member spells `key`.
bool NameIs(std::string_view raw, std::string_view key);

// The member and one comma beside it, with the spaces that belong to it: the one in front, or, with
// `first` (nothing that stays stands in front of it), the one behind.
Span MemberSpan(std::string_view text, const Skimmer::Name& name, uint32_t value_end, bool first);

}  // namespace kvgate::prompt
