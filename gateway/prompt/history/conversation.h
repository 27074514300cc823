// Types for what one conversation has sent to its upstream: the last request, its segments and
// parameters, and the key under which the conversation is found.
//
// A conversation without a key is recognised by its turns up to the first answer, also when system
// prompt, tools or early reminders have changed. If several share them (sub-agents), the one with
// the longest common prefix is taken.
// Nothing is shared between tenants.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/shared_list.h"

namespace kvgate::prompt::history {

// A segment as it was sent. Requests of a conversation share its bytes.
struct SentSegment {
  parse::Place place;
  parse::Role role = parse::Role::kNone;
  parse::Source source = parse::Source::kUser;
  parse::Content content = parse::Content::kOther;
  parse::Identity same;  // of the caller's value
  parse::Identity stable;
  parse::Identity said;                      // as parse::Segment::said
  parse::Identity sent_raw;                  // of `bytes`
  std::shared_ptr<const std::string> bytes;  // without breakpoint; null: beyond the memory's bound
  std::optional<parse::Breakpoint> breakpoint;  // the breakpoint that went out with it
  bool is_volatile = false;
  bool has_volatile = false;
  bool is_notice = false;  // as parse::Segment::is_notice
  // A turn of the gateway's own (gateway/prompt/rewrite/system_turn.h), which its caller never
  // says. It counts as volatile, so that nobody is recognised by it.
  bool is_ours = false;
  uint32_t num_tokens = 0;
};

using SentSegments = parse::SharedList<SentSegment>;

struct SentParameter {
  std::string name;
  std::string value;  // raw, cut to 256 bytes
  parse::Identity same;
  bool is_ours = false;  // added by the gateway
};

// The last request of a branch, as sent.
struct SentRequest {
  int64_t time_us = 0;
  std::string upstream;
  std::string model;
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  SentSegments segments;
  std::vector<SentParameter> parameters;  // those that affect caching or meaning
  bool holds_history = true;              // false: it holds only the new turns
  int64_t ttl_seconds = 0;                // the longest TTL sent, else the provider's default
  // Counts from its answer; absent while or because they are unknown.
  std::optional<int64_t> input_tokens;
  std::optional<int64_t> cached_tokens;
  std::optional<int64_t> written_tokens;
};

struct ConversationKey {
  parse::Identity id;       // hash of tenant, upstream and the key's own parts
  std::string_view origin;  // a literal: "x-kvgate-session", "metadata.user_id",
                            // "prompt_cache_key", "conversation", "content"
};

}  // namespace kvgate::prompt::history
