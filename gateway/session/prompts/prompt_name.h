// The names of prompts: NAME@VERSION, as the header x-kvgate-prompt and the configuration spell
// them. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::session::prompts {

inline constexpr std::string_view kPromptHeader = "x-kvgate-prompt";
inline constexpr std::string_view kValuesHeader = "x-kvgate-prompt-variables";
inline constexpr size_t kNameBytesMax = 64;
inline constexpr size_t kVersionBytesMax = 32;

struct PromptName {
  std::string name = {};
  std::string version = {};  // empty: the roll-out says which
  friend bool operator==(const PromptName&, const PromptName&) = default;
};

// "NAME@VERSION", or "NAME" without a version.
std::string LabelOf(const PromptName& name);

// Reads the header's value, "NAME" or "NAME@VERSION". Fails with kInvalidArgument for anything
// else, with the header as its field.
Result<PromptName> ReadPromptName(std::string_view text);
// Fails with kInvalidArgument, with the part's name ("name", "version") as its field, if one has
// other than letters, digits, '-', '_' and '.', or too many of them.
Result<void> CheckPromptName(const PromptName& name);

// True if the version is older than the other one: digits compare as numbers, so that "9" is older
// than "10", and "1.9" than "1.10".
bool IsOlder(std::string_view version, std::string_view other);

}  // namespace kvgate::session::prompts
