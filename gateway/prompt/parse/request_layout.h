// Outline: where the parts of a request body lie: fields, tools, system blocks, messages and their
// blocks, as spans, each with its identities. Pure; any thread.
//
// Its cost follows what is new: a segment whose raw bytes are known from an earlier outline (the
// memo) is skimmed and hashed, not parsed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/prompt/parse/segment.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::prompt {

// A top-level field that is no part of the prompt, but decides caching or is worth telling of.
struct Parameter {
  std::string_view name;  // in the body, raw
  Span member;            // "name": value
  Span value;
  Identity same;
};

struct Outline {
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  std::vector<Segment> segments;                       // in render order: tools, system, messages
  std::vector<Parameter> parameters;                   // in the body's order: everything else
  Span object;                                         // the body from { to }
  Span tools;                                          // the list's value; empty: there is none
  Span system;                                         // "system" or "instructions"
  Span messages;                                       // "messages" or "input"
  std::string model;                                   // unescaped
  std::optional<Marker> automatic;                     // Anthropic's top-level cache_control
  const Parameter* Find(std::string_view name) const;  // null: not there
};

// What is known of segments by their raw bytes. Bounded; thread-safe.
class SegmentMemo;
std::shared_ptr<SegmentMemo> MakeSegmentMemo(size_t entries_max);

// Chat Completions, Responses and Messages (and count_tokens). kInvalidArgument: no JSON object, a
// field twice that this would have to choose between, a shape that is not understood: such a body
// is forwarded as it is and nothing is said of it.
Result<Outline> ReadOutline(upstream::Endpoint endpoint, std::string_view body, SegmentMemo& memo);

// Whether the turns before are in the body. False: its provider has them, the body names them by a
// response's or conversation's id, and holds what is new.
bool HoldsHistory(std::string_view body, const Outline& outline);

// "tools[3]", "system", "messages[4].content[1]", "input[2]".
std::string PathOf(const Place& place);

}  // namespace kvgate::prompt
