// Conversation: what of one conversation has been sent to its upstream, and the memory of all of
// them: who continues what, which bytes stood for which value, what the request before looked like.
//
// A conversation without a key is recognised by model, system, tools and first user message; where
// several go on from one beginning (sub-agents), the one that shares the longest prefix is meant.
// Nothing is shared between tenants. Bounded in bytes, the one silent longest goes first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/shared_list.h"

namespace kvgate::prompt {

// A segment as it was sent. Bytes are shared between the requests of a conversation.
struct SentSegment {
  Place place;
  Role role = Role::kNone;
  Source source = Source::kUser;
  Content content = Content::kOther;
  Identity same;  // of the caller's value
  Identity stable;
  Identity said;                             // as Segment::said
  Identity sent_raw;                         // of `bytes`
  std::shared_ptr<const std::string> bytes;  // without a marker; null: over the memory's bound
  std::optional<Marker> marker;              // that went out with it
  bool is_volatile = false;
  uint32_t num_tokens = 0;
};

using SentSegments = SharedList<SentSegment>;

struct SentParameter {
  std::string name;
  std::string value;  // raw, cut to 256 bytes
  Identity same;
};

// The last request of a conversation, as sent.
struct SentRequest {
  int64_t time_us = 0;
  std::string upstream;
  std::string model;
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  SentSegments segments;
  std::vector<SentParameter> parameters;  // those that decide caching or meaning
  bool holds_history = true;              // false: its turns are only those that were new
  int64_t ttl_seconds = 0;                // the longest that went out, else the provider's own
  // Of its answer; absent: not known (yet).
  std::optional<int64_t> input_tokens;
  std::optional<int64_t> cached_tokens;
  std::optional<int64_t> written_tokens;
};

struct ConversationKey {
  Identity id;              // tenant, upstream and what follows
  std::string_view origin;  // a literal: "x-kvgate-session", "metadata.user_id",
                            // "prompt_cache_key", "conversation", "session_id", "content"
};

}  // namespace kvgate::prompt
