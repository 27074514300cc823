// SegmentNames tells which tool a part of a prompt defines, or is the result of. What it has read
// of a part's bytes is remembered by their identity, so that the cost follows what is new.
// Bounded; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::diagnose {

// What the bytes of one part say of tools.
struct ToolFacts {
  std::string name;    // of the tool that it defines
  std::string server;  // that it names itself; empty: the name may tell
  std::string result;  // the id of the call whose result it is
  std::vector<std::pair<std::string, std::string>> calls;  // ids and names of the tools called
};
// Reads any dialect. What cannot be read stays empty.
ToolFacts ReadToolFacts(std::string_view bytes, parse::Content content);

class SegmentNames {
 public:
  explicit SegmentNames(size_t entries_max = size_t{1} << 15) : generation_max_(entries_max / 2) {}

  struct Named {
    std::string name;
    std::string server;
  };
  // Returns one for each segment; both are empty for parts that are no tool's.
  std::vector<Named> Of(const history::SentSegments& segments);

 private:
  struct Hash {
    size_t operator()(const parse::Identity& id) const { return static_cast<size_t>(id.low); }
  };
  using Facts = std::shared_ptr<const ToolFacts>;
  using Generation = std::unordered_map<parse::Identity, Facts, Hash>;

  Facts Find(const history::SentSegment& segment);

  const size_t generation_max_;
  std::mutex mutex_;
  Generation young_;  // becomes the old one when it is full
  Generation old_;
};

}  // namespace kvgate::prompt::diagnose
