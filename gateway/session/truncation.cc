#include "gateway/session/truncation.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "gateway/session/window/replayed_window.h"

namespace kvgate::session {
namespace {

using dialect::form::CompletionRequest;
using dialect::form::Message;
using window::Replayed;
using window::Unit;

// The messages' own tokens are not all of the prompt's: templates write text around them. If a
// share is too much, the next one is tried.
constexpr std::array<int, 4> kPercents{95, 85, 70, 50};

bool IsSystem(const Message& message) {
  return message.role == "system" || message.role == "developer";
}

// A list of messages in units; `ends` says behind which message each one ends.
struct Units {
  std::vector<Unit> units;
  std::vector<size_t> ends;
};

Units UnitsOf(std::span<const Message> messages, const TruncateArgs& args) {
  Units found;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool is_result = message.role == "tool" && !found.units.empty();
    if (!is_result) {
      found.units.push_back({.tokens = 0, .is_user = message.role == "user"});
      found.ends.push_back(0);
    }
    found.units.back().tokens += args.tokens(message);
    found.ends.back() = i + 1;
  }
  return found;
}

class Truncating {
 public:
  Truncating(const TruncateArgs& args, CompletionRequest& request, std::vector<Message> messages)
      : args_(args), request_(request), all_(std::move(messages)) {
    const auto begin = std::find_if_not(all_.begin(), all_.end(), IsSystem);
    num_system_ = static_cast<size_t>(begin - all_.begin());
    units_ = UnitsOf(std::span(all_).subspan(num_system_), args);
  }

  Result<std::optional<Truncated>> Run() {
    if (units_.units.size() < 2) return std::nullopt;
    Truncated truncated;
    KVGATE_TRY(truncated.before, args_.count(request_));
    KVGATE_TRY(const int64_t fixed, Fixed());
    for (const int percent : kPercents) {
      const Replayed kept = window::ReplayWindow(
          {.hard = args_.tokens_max * percent / 100, .fixed = fixed, .units = units_.units});
      if (kept.first == 0) continue;
      request_.prompt = MessagesOf(kept);
      KVGATE_TRY(truncated.after, args_.count(request_));
      if (truncated.after <= args_.tokens_max) return truncated;
    }
    request_.prompt = std::move(all_);
    return std::nullopt;
  }

 private:
  size_t BeginOf(size_t unit) const {
    return num_system_ + (unit == 0 ? 0 : units_.ends[unit - 1]);
  }
  void Take(size_t begin, size_t end, std::vector<Message>& messages) const {
    messages.insert(messages.end(), all_.begin() + static_cast<std::ptrdiff_t>(begin),
                    all_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  std::vector<Message> MessagesOf(const Replayed& kept) const {
    std::vector<Message> messages;
    Take(0, num_system_, messages);
    if (kept.user) Take(BeginOf(*kept.user), BeginOf(*kept.user + 1), messages);
    Take(BeginOf(kept.first), all_.size(), messages);
    return messages;
  }
  // Tools and system, which are the same for all requests of a conversation.
  Result<int64_t> Fixed() {
    std::vector<Message> messages;
    Take(0, BeginOf(1), messages);
    request_.prompt = std::move(messages);
    KVGATE_TRY(const int64_t tokens, args_.count(request_));
    return std::max<int64_t>(0, tokens - units_.units.front().tokens);
  }

  const TruncateArgs& args_;
  CompletionRequest& request_;
  std::vector<Message> all_;
  size_t num_system_ = 0;
  Units units_;
};

}  // namespace

Result<std::optional<Truncated>> Truncate(const TruncateArgs& args, CompletionRequest& request) {
  auto* const messages = std::get_if<std::vector<Message>>(&request.prompt);
  if (messages == nullptr) return std::nullopt;
  return Truncating(args, request, *messages).Run();
}

}  // namespace kvgate::session
