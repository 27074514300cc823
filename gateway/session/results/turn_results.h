// TurnResults: what stubs change of a session's turn: its request, before it is compared with what
// the session has, and the body that is answered. Pure, but for the log; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/log/session_log.h"
#include "gateway/session/transcript/request_body.h"

namespace kvgate::session::results {

struct Settings {
  bool stubs = false;       // where neither session nor request say otherwise
  size_t bytes_max = 8192;  // of a result that stands whole in a prompt, and of a part that is read
};

struct TakeArgs {
  const Settings& settings;
  std::optional<bool> stubs = {};  // as the request says; absent: as the session has it
  std::span<const log::LoggedTurn> stored = {};  // of the session
  transcript::RequestBody& request;
  std::vector<log::KeptResult>& kept;
};
// Puts stubs into the request's messages if the session has them, and the tool behind its tools.
// Returns true if the session's model has the tool. Once it has, that stays, because tools stand in
// front of all that a cache holds.
bool TakeResults(const TakeArgs& args);

// The body of a request that was changed so. A response is not also stored by its id, which would
// show calls that its caller does not answer.
std::string BodyOf(const transcript::RequestBody& request, std::string_view body);

// The text of a result that a turn, or one before it on its branch, keeps; nullopt if there is
// none. Waits for the disk.
Result<std::optional<std::string>> FindResult(const log::SessionLog& log,
                                              const log::SessionLog::Place& place,
                                              const log::LoggedTurn& turn, std::string_view id);

}  // namespace kvgate::session::results
