// Oracle: what a perfect planner could have had read of each prompt, and its bill: everything that
// equals what the conversation sent before, wherever it stands, while the provider keeps it. An
// upper bound that no gateway has to reach: it looks into the future, and its cache needs no
// breakpoints and no order. Not thread-safe.
//
// Equal means: keys in any order, CRLF as LF, tools and lines in any order; a line that is there
// twice has to have been there twice. Of other conversations of the tenant only tools and system
// prompt count. Written is what is read later at all.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/usage.h"
#include "gateway/replay/cache_store.h"
#include "gateway/replay/trace.h"

namespace kvgate::replay {

class Oracle {
 public:
  explicit Oracle(const ledger::Prices& prices) : prices_(prices) {}

  struct Answer {
    ledger::TokenUsage usage;  // what is new counts as uncached
    // Of what is read here for the first time, and so had to be written before; 0 where writing
    // costs nothing.
    int64_t written_tokens = 0;
  };
  // kInvalidArgument: the body is no JSON object.
  Result<Answer> Ask(const TraceRequest& request, std::string_view provider);

 private:
  // A line, or a tool, of one conversation.
  struct Piece {
    int32_t count = 0;    // of it, in one prompt
    int32_t written = 0;  // of these paid for
    int64_t used_us = 0;  // in the request before
  };
  using Pieces = std::unordered_map<PrefixHash, Piece>;
  struct Now {
    PrefixHash hash;
    uint32_t bytes = 0;
    bool is_shared = false;  // of tools and system
  };
  // What can be read as soon as its answer has begun.
  struct Coming {
    int64_t time_us = 0;
    int64_t sent_us = 0;
    std::string conversation;
    std::string tenant;
    std::unordered_map<PrefixHash, std::pair<int32_t, bool>> counts;  // and whether it is shared
  };
  static void Keep(Piece& piece, int32_t count, int64_t sent_us);
  void Settle(int64_t now_us);

  const ledger::Prices& prices_;
  std::unordered_map<std::string, Pieces> conversations_;
  std::unordered_map<std::string, Pieces> tenants_;
  std::deque<Coming> coming_;
};

// What a request belongs to: the trace's own word, else the client's (metadata.user_id,
// prompt_cache_key, a session header), else model and first user turn.
std::string ConversationOf(const TraceRequest& request);

}  // namespace kvgate::replay
