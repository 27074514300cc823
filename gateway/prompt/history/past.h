// Past answers for conversations that are not in memory: those of an earlier process, those that
// memory had no room for, and those of other gateways. What it keeps is read by its owner
// (gateway/service/branches); the Optimizer only asks. Implementations are thread-safe and do not
// wait for a disk.
#pragma once

#include <memory>
#include <span>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::history {

class Past {
 public:
  enum class Standing : uint8_t {
    kUnknown,  // nothing was sent, or it went out as received
    // Branches are kept that are not among the known ones, or may be, and can be read.
    kKept,
    kLost,  // what was sent may differ from what was received, and is not known any more
  };
  virtual ~Past() = default;

  struct Question {
    std::span<const parse::Identity> keys;                 // of the conversation; see Recognition
    std::span<const std::shared_ptr<const Branch>> known;  // its branches that are in memory
    bool may_ask = false;  // others can still be asked what they know
  };
  virtual Standing Find(const Question& question) const = 0;
  // Returns false if what a new conversation sends could not be kept: it then goes out as received,
  // so that nothing has to be known of it later.
  virtual bool CanKeep() const = 0;
};

// The Past of a process that can keep nothing.
class NoPast final : public Past {
 public:
  Standing Find(const Question&) const override { return Standing::kUnknown; }
  bool CanKeep() const override { return false; }
};

}  // namespace kvgate::prompt::history
