// Logging: levels, text or JSON lines on stderr. Never a prompt's text, never a secret.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace kvgate {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// Thread-safe. Call once at start; before it the defaults hold.
void ConfigureLog(const LogOptions& options);
bool LogEnabled(LogLevel level);
// `part` is the folder that speaks: "store", "engine".
void LogLine(LogLevel level, std::string_view part, std::string_view message);

}  // namespace kvgate

// KVGATE_LOG(kInfo, "store", "opened {} blocks", n);
#define KVGATE_LOG(level, part, ...)                                                  \
  do {                                                                                \
    if (::kvgate::LogEnabled(::kvgate::LogLevel::level))                              \
      ::kvgate::LogLine(::kvgate::LogLevel::level, part, ::fmt::format(__VA_ARGS__)); \
  } while (false)
