// Logging: levels, text or JSON lines on stderr, or lines for a function. Prompt texts and secrets
// must never be logged.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace kvgate {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// Thread-safe. To be called once at start; until then the defaults apply.
void ConfigureLog(const LogOptions& options);
bool LogEnabled(LogLevel level);
// Lines go to this function instead of stderr, one at a time; null: to stderr again. It must log
// nothing. Thread-safe: no line goes to the one before once it returns.
using LogOutput =
    std::function<void(LogLevel level, std::string_view part, std::string_view message)>;
void SetLogOutput(LogOutput output);
bool HasLogOutput();
// `part` names the folder that logs: "store", "engine".
void LogLine(LogLevel level, std::string_view part, std::string_view message);

}  // namespace kvgate

// KVGATE_LOG(kInfo, "store", "opened {} blocks", n);
#define KVGATE_LOG(level, part, ...)                                                  \
  do {                                                                                \
    if (::kvgate::LogEnabled(::kvgate::LogLevel::level))                              \
      ::kvgate::LogLine(::kvgate::LogLevel::level, part, ::fmt::format(__VA_ARGS__)); \
  } while (false)
