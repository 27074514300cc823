// Ephemeral text: what agents put into turns for a moment and then move or take back by themselves:
// reminders and counters in their tags, empty blocks. Nothing else that has left a turn may go out
// again, and this only where it hides and changes nothing: while its client still says the same
// text elsewhere, or says the same further back with other values. Any thread.
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

namespace kvgate::prompt {

struct Ephemeral {
  std::string text;
  VolatileKind kind = VolatileKind::kReminder;
};

// Whether `text`, one volatile span, is such: in a tag that only agents write, or, in a system turn
// among the others, any value that programs write.
bool IsEphemeral(std::string_view text, VolatileKind kind, Role role);

// What `text` is made of, if that is ephemeral text and white space alone.
std::optional<std::vector<Ephemeral>> ReadEphemeral(std::string_view text, Role role);

// What of a request's turns is ephemeral: read once something is asked.
class SaidNow {
 public:
  // Both outlive it.
  SaidNow(std::string_view body, const std::vector<Segment>& segments);

  // Whether the request says `text`, or says it with other values in segment `from` or behind.
  bool Covers(const Ephemeral& text, size_t from);

 private:
  struct Newest {
    size_t segment;
    std::string_view text;
  };
  void Read();

  const std::string_view body_;
  const std::vector<Segment>& segments_;
  bool is_read_ = false;
  std::deque<std::string> texts_;
  std::unordered_set<std::string_view> known_;
  std::array<std::vector<Newest>, kNumVolatileKinds> newest_;  // from the end on
};

}  // namespace kvgate::prompt
