// SessionAsk: what the headers of a request say of the session that it belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::session {

inline constexpr std::string_view kKeyHeader = "x-kvgate-session";
inline constexpr std::string_view kModeHeader = "x-kvgate-session-mode";
inline constexpr std::string_view kWaitHeader = "x-kvgate-session-wait";
inline constexpr std::string_view kRetrievalHeader = "x-kvgate-retrieval";
inline constexpr std::string_view kResultsHeader = "x-kvgate-tool-results";
inline constexpr int kWaitSecondsMax = 600;

struct SessionAsk {
  // kAuto: a list of messages with an assistant's is a transcript, any other one is new turns.
  enum class Mode : uint8_t { kAuto, kAppend, kTranscript };
  std::string key = {};
  Mode mode = Mode::kAuto;
  int wait_seconds = 0;  // for another request in the same session
  // What all attempts of one request have in common, as a digest of the client's idempotency key;
  // empty: the client sends none.
  std::string attempt = {};
  bool is_retry = false;  // the client says that it has sent the request before
  // If older turns are searched for what the request says; absent: as the session has it.
  std::optional<bool> retrieves = {};
  // If long results of tools get stubs; absent: as the session has it.
  std::optional<bool> stubs = {};
};

struct SessionHeaders {
  std::string_view key = {};  // empty: the request belongs to no session
  std::string_view mode = {};
  std::string_view wait = {};
  std::string_view attempt = {};      // an idempotency key
  std::string_view retrieval = {};    // "on" or "off"
  std::string_view results = {};      // "stub" or "whole"
  std::string_view retry_count = {};  // of the SDKs that Stainless makes; not "0": a retry
};
// Returns nullopt if the request belongs to no session, or only names it to be recognised. Fails
// with kInvalidArgument, whose field is the header. `wait_max` bounds the wait, in seconds.
Result<std::optional<SessionAsk>> ReadAsk(const SessionHeaders& headers, int wait_max);

// Fails with kInvalidArgument, with this field, for a key that no caller can give to a session: one
// that is empty, longer than 128 bytes, has a '/', is not of printable ASCII, or is an id that this
// gateway gives to responses and conversations.
Result<void> CheckKey(std::string_view key, std::string_view field);

}  // namespace kvgate::session
