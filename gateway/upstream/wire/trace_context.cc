#include "gateway/upstream/wire/trace_context.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvgate::upstream::wire {
namespace {

constexpr std::string_view kHeader = "traceparent";
constexpr size_t kVersionDigits = 2;
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kFlagsDigits = 2;

// Upper-case digits are invalid in a traceparent.
bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

int DigitOf(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// Takes this many hex digits from the front; empty if they do not stand there.
std::string_view TakeHex(size_t num_digits, std::string_view& rest) {
  const std::string_view found = rest.substr(0, num_digits);
  if (found.size() < num_digits || !IsHex(found)) return "";
  rest.remove_prefix(num_digits);
  return found;
}

bool TakeHyphen(std::string_view& rest) {
  if (!rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view value) {
  const std::string_view version = TakeHex(kVersionDigits, value);
  if (version.empty() || version == "ff" || !TakeHyphen(value)) return std::nullopt;
  const std::string_view trace_id = TakeHex(kTraceDigits, value);
  if (IsZero(trace_id) || !TakeHyphen(value)) return std::nullopt;
  const std::string_view span_id = TakeHex(kSpanDigits, value);
  if (IsZero(span_id) || !TakeHyphen(value)) return std::nullopt;
  const std::string_view flags = TakeHex(kFlagsDigits, value);
  if (flags.empty()) return std::nullopt;
  // A later version may have more fields.
  if (!value.empty() && (version == "00" || !TakeHyphen(value))) return std::nullopt;
  const int known = DigitOf(flags[1]) & (TraceContext::kSampled | TraceContext::kRandom);
  return TraceContext{.trace_id = std::string(trace_id),
                      .span_id = std::string(span_id),
                      .flags = static_cast<uint8_t>(known)};
}

std::optional<TraceContext> TraceOfCaller(const HeaderFields& fields) {
  const auto is_it = [](const HeaderField& field) { return SameName(field.name, kHeader); };
  const auto found = std::find_if(fields.begin(), fields.end(), is_it);
  if (found == fields.end() || std::any_of(found + 1, fields.end(), is_it)) return std::nullopt;
  return ParseTraceparent(found->value);
}

TraceContext OwnTrace(std::string_view request_id, const std::optional<TraceContext>& caller) {
  TraceContext own{.trace_id = fmt::format("{:0>32}", request_id).substr(0, kTraceDigits)};
  own.span_id = own.trace_id.substr(kTraceDigits - kSpanDigits);
  if (caller) {
    own.trace_id = caller->trace_id;
    own.flags = caller->flags;
  }
  return own;
}

std::string TraceparentOf(const TraceContext& context) {
  return fmt::format("00-{}-{}-{:02x}", context.trace_id, context.span_id, context.flags);
}

}  // namespace kvgate::upstream::wire
