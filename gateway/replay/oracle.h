// The Oracle computes what a perfect planner could have had read of each prompt, and its bill:
// everything that equals what the conversation sent before, at any position, while the provider
// keeps it. It is an upper bound that no gateway has to reach, because it looks into the future and
// its cache needs neither breakpoints nor order. Not thread-safe.
//
// Equal means: keys in any order, CRLF as LF, tools and lines in any order; a line that occurs
// twice must have occurred twice before. Of the tenant's other conversations only tools and system
// prompt count. Only tokens that are read later count as written.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/replay/cache_store.h"
#include "gateway/replay/trace.h"

namespace kvgate::replay {

class Oracle {
 public:
  explicit Oracle(const ledger::Prices& prices) : prices_(prices) {}

  struct Answer {
    ledger::reply::TokenUsage usage;  // new tokens count as uncached
    // Tokens that are read here for the first time and so had to be written before; 0 if writing
    // costs nothing.
    int64_t written_tokens = 0;
  };
  // Fails with kInvalidArgument if the body is no JSON object.
  Result<Answer> Ask(const TraceRequest& request, std::string_view provider);

 private:
  // A line or tool of one conversation.
  struct Piece {
    int32_t count = 0;    // its occurrences in one prompt
    int32_t written = 0;  // occurrences whose write has been paid
    int64_t used_us = 0;  // when it was last sent
  };
  using Pieces = std::unordered_map<PrefixHash, Piece>;
  struct Now {
    PrefixHash hash;
    uint32_t bytes = 0;
    bool is_shared = false;  // part of tools or system
  };
  // The pieces of a request that can be read once its answer has begun.
  struct Coming {
    int64_t time_us = 0;
    int64_t sent_us = 0;
    std::string conversation;
    std::string tenant;
    std::unordered_map<PrefixHash, std::pair<int32_t, bool>> counts;  // and if it is shared
  };
  static void Keep(Piece& piece, int32_t count, int64_t sent_us);
  void Settle(int64_t now_us);

  const ledger::Prices& prices_;
  std::unordered_map<std::string, Pieces> conversations_;
  std::unordered_map<std::string, Pieces> tenants_;
  std::deque<Coming> coming_;
};

// Returns the conversation of a request: as the trace names it, else as the client does (a
// session header, metadata.user_id, prompt_cache_key), else by model and first turn.
std::string ConversationOf(const TraceRequest& request);

}  // namespace kvgate::replay
