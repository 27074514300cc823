// SummaryPrompt: the words by which a model is asked for a summary. An operator may put a file in
// the place of the built-in ones; the name and version of what was used stand in each event.
// Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::session::summary {

class SummaryPrompt {
 public:
  // The built-in template.
  SummaryPrompt();
  // Reads a file. Fails with kInvalidArgument if it cannot be read, is empty or too large, or has a
  // {{word}} that is not known.
  static Result<SummaryPrompt> Load(const std::string& file);
  // The built-in words for a whole conversation that goes on from its summary alone, or in their
  // place the `instructions` of who asks for it, as they are, unless they are blank.
  static SummaryPrompt OfWhole(std::string_view instructions);

  // "builtin@1", "compaction@1", "caller"; for a file "file@" and the beginning of its SHA-256.
  const std::string& name() const { return name_; }

  struct Words {
    int64_t tokens_max = 0;      // {{tokens}}: that the summary may have
    std::string kept_from = {};  // {{kept_from}}: how the first message begins that stays
    std::string part = {};       // stands behind the words; empty: it stands in messages before
  };
  // The text that asks. {{part}} says where that is which is to be summarised.
  std::string Ask(const Words& words) const;

 private:
  SummaryPrompt(std::string name, std::string text)
      : name_(std::move(name)), text_(std::move(text)) {}

  std::string name_;
  std::string text_;
  std::string behind_ = {};  // said as it is
};

}  // namespace kvgate::session::summary
