#include "sdk/src/log_output.h"

#include <fmt/format.h>

#include <mutex>
#include <string_view>

#include "base/log.h"

namespace kvgate::sdk {
namespace {

LogLevel LevelOf(kvgate_log_level level) {
  switch (level) {
    case KVGATE_LOG_DEBUG:
      return LogLevel::kDebug;
    case KVGATE_LOG_INFO:
      return LogLevel::kInfo;
    case KVGATE_LOG_WARNING:
      return LogLevel::kWarning;
    case KVGATE_LOG_ERROR:
      break;
  }
  return LogLevel::kError;
}

kvgate_log_level LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return KVGATE_LOG_DEBUG;
    case LogLevel::kInfo:
      return KVGATE_LOG_INFO;
    case LogLevel::kWarning:
      return KVGATE_LOG_WARNING;
    case LogLevel::kError:
      break;
  }
  return KVGATE_LOG_ERROR;
}

}  // namespace

void LogOutput::Begin() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!HasLogOutput()) SetLogOutput([](LogLevel, std::string_view, std::string_view) {});
  });
}

void LogOutput::Set(kvgate_log_level level, Function function, void* user) {
  ConfigureLog({.level = LevelOf(level)});
  if (function == nullptr) {
    SetLogOutput([](LogLevel, std::string_view, std::string_view) {});
    return;
  }
  SetLogOutput([function, user](LogLevel said, std::string_view part, std::string_view message) {
    function(user, LevelOf(said), fmt::format("{}: {}", part, message).c_str());
  });
}

}  // namespace kvgate::sdk
