#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/json_escape.h"

namespace kvgate {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};

// Never destroyed, as the logger.
struct Output {
  std::mutex mutex;
  LogOutput function;
};
std::atomic<bool> g_has_output{false};

Output& OutputOf() {
  // Not on the heap, so that a library that is unloaded leaves nothing there.
  alignas(Output) static std::byte bytes[sizeof(Output)];
  static Output& output = *new (bytes) Output;
  return output;
}

spdlog::logger& Logger() {
  // The logger is never destroyed, because workers may log during the destruction of statics.
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger("kvgate", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::trace);
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string EscapeJson(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  AppendJsonEscaped(text, JsonShort::kNone, out);
  return out;
}

}  // namespace

void ConfigureLog(const LogOptions& options) {
  g_level = options.level;
  g_format = options.format;
  Logger().set_pattern(options.format == LogFormat::kText
                           ? "%Y-%m-%dT%H:%M:%S.%e%z %l %v"
                           : R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})");
}

bool LogEnabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

void SetLogOutput(LogOutput output) {
  Output& current = OutputOf();
  const std::lock_guard lock(current.mutex);
  g_has_output = output != nullptr;
  current.function = std::move(output);
}

bool HasLogOutput() { return g_has_output; }

void LogLine(LogLevel level, std::string_view part, std::string_view message) {
  if (g_has_output.load(std::memory_order_acquire)) {
    Output& output = OutputOf();
    const std::lock_guard lock(output.mutex);
    if (output.function) {
      output.function(level, part, message);
      return;
    }
  }
  if (g_format.load(std::memory_order_relaxed) == LogFormat::kJson) {
    Logger().log(ToSpdlog(level), R"("part":"{}","message":"{}")", EscapeJson(part),
                 EscapeJson(message));
  } else {
    Logger().log(ToSpdlog(level), "{}: {}", part, message);
  }
}

}  // namespace kvgate
