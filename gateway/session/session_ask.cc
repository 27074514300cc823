#include "gateway/session/session_ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/digest.h"
#include "gateway/session/log/session_log.h"

namespace kvgate::session {
namespace {

constexpr size_t kAttemptDigits = 32;

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, "session",
                   fmt::format("Invalid value for '{}': {}", field, why), std::string(field));
}

}  // namespace

Result<void> CheckKey(std::string_view key, std::string_view field) {
  const bool is_printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= '!' && c <= '~' && c != '/'; });
  if (log::IsMintedKey(key)) {
    return Wrong(field,
                 fmt::format("'{}' is the id of a stored response or a conversation. Go on from it "
                             "with previous_response_id or conversation, or copy it to a session "
                             "of another key (kvgate sessions fork).",
                             key.substr(0, log::kKeyBytesMax)));
  }
  if (!key.empty() && key.size() <= log::kKeyBytesMax && is_printable) return {};
  return Wrong(field, fmt::format("a session's key has 1 to {} printable ASCII characters, without "
                                  "spaces and slashes.",
                                  log::kKeyBytesMax));
}

Result<std::optional<SessionAsk>> ReadAsk(const SessionHeaders& headers, int wait_max) {
  if (headers.key.empty()) return std::optional<SessionAsk>();
  if (headers.mode == "recognise") return std::optional<SessionAsk>();
  KVGATE_TRY_VOID(CheckKey(headers.key, kKeyHeader));
  SessionAsk ask{.key = std::string(headers.key)};
  if (headers.mode == "append") {
    ask.mode = SessionAsk::Mode::kAppend;
  } else if (headers.mode == "transcript") {
    ask.mode = SessionAsk::Mode::kTranscript;
  } else if (!headers.mode.empty()) {
    return Wrong(kModeHeader, "append, transcript and recognise are known.");
  }
  if (!headers.attempt.empty()) {
    const PrefixDigest digest = ThreadSha256().Update(headers.attempt).Finish();
    ask.attempt = ToHex(digest.bytes).substr(0, kAttemptDigits);
  }
  ask.is_retry = !headers.retry_count.empty() && headers.retry_count != "0";
  if (headers.retrieval == "on" || headers.retrieval == "off") {
    ask.retrieves = headers.retrieval == "on";
  } else if (!headers.retrieval.empty()) {
    return Wrong(kRetrievalHeader, "on and off are known.");
  }
  if (headers.results == "stub" || headers.results == "whole") {
    ask.stubs = headers.results == "stub";
  } else if (!headers.results.empty()) {
    return Wrong(kResultsHeader, "stub and whole are known.");
  }
  if (headers.wait.empty()) return std::optional(std::move(ask));
  const char* const end = headers.wait.data() + headers.wait.size();
  const auto read = std::from_chars(headers.wait.data(), end, ask.wait_seconds);
  if (read.ec != std::errc() || read.ptr != end || ask.wait_seconds < 0 ||
      ask.wait_seconds > wait_max) {
    return Wrong(kWaitHeader, fmt::format("it is a number of seconds from 0 to {}.", wait_max));
  }
  return std::optional(std::move(ask));
}

}  // namespace kvgate::session
