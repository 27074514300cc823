// PromptLibrary: the versions of all named prompts at one moment, and which of them something that
// begins now gets. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/prompts/prompt_name.h"

namespace kvgate::session::prompts {

inline constexpr size_t kTextBytesMax = size_t{1} << 20;
inline constexpr size_t kVersionsMax = 4096;  // of all names

struct PromptVersion {
  PromptName id = {};
  std::string text = {};
  std::vector<std::string> variables = {};  // of the text
  // Of what begins with the name alone; absent: what the others leave, if it is the newest such.
  std::optional<double> share = {};
  bool is_configured = false;  // by the configuration; else set by the API
  int64_t created_us = 0;      // when it was set; 0: it is the configuration's
  friend bool operator==(const PromptVersion&, const PromptVersion&) = default;
};

// Makes a version of its parts. Line breaks at the end of the text do not count. Fails with
// kInvalidArgument, with the field "text", for one that is empty, too long or no UTF-8, or has too
// many variables.
Result<PromptVersion> MakeVersion(PromptName id, std::string_view text,
                                  std::optional<double> share);

class PromptLibrary {
 public:
  PromptLibrary() = default;
  // Fails with kInvalidArgument, with the field "share", if those of a name are more than 1
  // together, and with kOverloaded for more versions than kVersionsMax. REQUIRES: no version twice.
  static Result<std::shared_ptr<const PromptLibrary>> Make(std::vector<PromptVersion> versions);

  // Sorted by name and version, the oldest first.
  const std::vector<PromptVersion>& all() const { return versions_; }
  // Those of one name; empty: there is no such prompt.
  std::span<const PromptVersion> VersionsOf(std::string_view name) const;
  // Null: there is none.
  const PromptVersion* Find(const PromptName& id) const;
  // What the shares leave: the newest version without one, else the newest. Null: no such name.
  const PromptVersion* RestOf(std::string_view name) const;
  // The version that a draw from [0, 1) gets. One whose share grows keeps what it had, where no
  // older version has a share. Null: no such name.
  const PromptVersion* Draw(std::string_view name, double place) const;

 private:
  std::vector<PromptVersion> versions_;
};

// A draw from [0, 1) that is the same for the same three, wherever and whenever it is made.
double PlaceOf(std::string_view tenant, std::string_view name, std::string_view beginning);

}  // namespace kvgate::session::prompts
