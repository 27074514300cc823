#include "gateway/session/prompts/prompt_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvgate::session::prompts {
namespace {

constexpr std::string_view kSource = "session.prompts";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsPlain(std::string_view text, size_t bytes_max) {
  return !text.empty() && text.size() <= bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                  c == '_' || c == '.';
         });
}

Error NotPlain(std::string_view field, std::string_view what, size_t bytes_max) {
  return MakeError(ErrorCode::kInvalidArgument, std::string(kSource),
                   fmt::format("Invalid value for '{}': {} has 1 to {} letters, digits, '-', '_' "
                               "or '.'.",
                               field, what, bytes_max),
                   std::string(field));
}

// Takes the run of digits, or the one other character, at the beginning.
std::string_view TakePart(std::string_view& text) {
  size_t size = 1;
  if (IsDigit(text.front())) {
    while (size < text.size() && IsDigit(text[size])) ++size;
  }
  const std::string_view part = text.substr(0, size);
  text.remove_prefix(size);
  return part;
}

std::string_view WithoutZeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

// -1, 0 or 1, as the part is before, equal to or behind the other.
int Compare(std::string_view part, std::string_view other) {
  if (IsDigit(part.front()) && IsDigit(other.front())) {
    part = WithoutZeros(part);
    other = WithoutZeros(other);
    if (part.size() != other.size()) return part.size() < other.size() ? -1 : 1;
  }
  const int order = part.compare(other);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

}  // namespace

std::string LabelOf(const PromptName& name) {
  return name.version.empty() ? name.name : name.name + "@" + name.version;
}

Result<PromptName> ReadPromptName(std::string_view text) {
  const size_t at = text.find('@');
  PromptName name{.name = std::string(text.substr(0, at)), .version = {}};
  if (at != std::string_view::npos) name.version = text.substr(at + 1);
  if (!IsPlain(name.name, kNameBytesMax)) {
    return NotPlain(kPromptHeader, "the name of a prompt", kNameBytesMax);
  }
  if (at != std::string_view::npos && !IsPlain(name.version, kVersionBytesMax)) {
    return NotPlain(kPromptHeader, "the version behind '@'", kVersionBytesMax);
  }
  return name;
}

Result<void> CheckPromptName(const PromptName& name) {
  if (!IsPlain(name.name, kNameBytesMax)) return NotPlain("name", "it", kNameBytesMax);
  if (!IsPlain(name.version, kVersionBytesMax)) return NotPlain("version", "it", kVersionBytesMax);
  return {};
}

bool IsOlder(std::string_view version, std::string_view other) {
  const std::string_view whole = version;
  const std::string_view whole_other = other;
  while (!version.empty() && !other.empty()) {
    const int order = Compare(TakePart(version), TakePart(other));
    if (order != 0) return order < 0;
  }
  if (version.empty() != other.empty()) return version.empty();
  return whole < whole_other;  // they differ in zeros at most
}

}  // namespace kvgate::session::prompts
