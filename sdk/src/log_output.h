// LogOutput: where the log's lines go in a process that has linked the library: to the program's
// own function, or nowhere.
#pragma once

#include "sdk/include/kvgate.h"

namespace kvgate::sdk {

class LogOutput {
 public:
  using Function = void (*)(void* user, kvgate_log_level level, const char* line);
  // Sends nothing to stderr any more; called before anything can be logged.
  static void Begin();
  static void Set(kvgate_log_level level, Function function, void* user);
};

}  // namespace kvgate::sdk
