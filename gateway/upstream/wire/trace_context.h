// TraceContext: the place of a span in a trace, as the header traceparent says it (W3C Trace
// Context, https://www.w3.org/TR/trace-context/).
//
// A caller's traceparent makes the span of its request a child of the caller's. One that cannot be
// read is ignored, and the request begins a trace of its own. Nothing here reads tracestate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream::wire {

struct TraceContext {
  static constexpr uint8_t kSampled = 1;
  static constexpr uint8_t kRandom = 2;  // the trace id is random

  std::string trace_id = {};  // 32 lower-case hex digits
  std::string span_id = {};   // 16 lower-case hex digits
  uint8_t flags = kSampled;   // others than those above are dropped, as the specification asks
  bool is_sampled() const { return (flags & kSampled) != 0; }
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Reads a traceparent: VERSION-TRACE-SPAN-FLAGS. Of versions above 00 these four fields are read,
// and what may follow is not. Returns nullopt for version ff, ids of zeros alone, and all else that
// the specification calls invalid.
std::optional<TraceContext> ParseTraceparent(std::string_view value);
// Returns the context of a request's caller; nullopt if its headers have none, several, or one that
// is invalid.
std::optional<TraceContext> TraceOfCaller(const HeaderFields& fields);

// Returns the place of this gateway's own span for a request: in the caller's trace and with its
// sampling decision, else in a sampled trace of its own. The request's id tells the span's, so that
// either can be found by the other: an own trace id is the id with zeros in front of it, and a span
// id is its last 16 digits.
TraceContext OwnTrace(std::string_view request_id, const std::optional<TraceContext>& caller);

// Returns the value of a traceparent of version 00.
std::string TraceparentOf(const TraceContext& context);

}  // namespace kvgate::upstream::wire
