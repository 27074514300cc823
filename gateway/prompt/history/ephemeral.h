// Ephemeral text is what agents put into turns for a moment and then move or take back themselves:
// reminders and counters in their tags, and empty blocks. It is the only text that may be sent
// again after it has left a turn, and only if that hides and changes nothing: while the client
// still says the same text elsewhere, or says it further back with other values. Any thread.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::history {

struct Ephemeral {
  std::string text;
  parse::VolatileKind kind = parse::VolatileKind::kReminder;
};

// Returns true if `text`, one volatile span, is ephemeral: it stands in a tag that only agents
// write, or, in a system turn among the messages, it is any value that programs write.
bool IsEphemeral(std::string_view text, parse::VolatileKind kind, parse::Role role);

// Returns the parts of `text` if it consists of ephemeral text and white space alone, else nullopt.
std::optional<std::vector<Ephemeral>> ReadEphemeral(std::string_view text, parse::Role role);

// Answers which of a request's turns are ephemeral; the request is read when the first question
// comes.
class SaidNow {
 public:
  // `body` and `segments` must outlive it.
  SaidNow(std::string_view body, const std::vector<parse::Segment>& segments);

  // Returns true if the request says `text`, or says it with other values in segment `from` or
  // behind.
  bool Covers(const Ephemeral& text, size_t from);

 private:
  struct Newest {
    size_t segment;
    std::string_view text;
  };
  void Read();

  const std::string_view body_;
  const std::vector<parse::Segment>& segments_;
  bool is_read_ = false;
  std::deque<std::string> texts_;
  std::unordered_set<std::string_view> known_;
  std::array<std::vector<Newest>, parse::kNumVolatileKinds> newest_;  // last segment first
};

}  // namespace kvgate::prompt::history
