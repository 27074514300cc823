// KVGATE_CHECK: a broken invariant ends the process with a message. User input must never trigger
// it.
#pragma once

namespace kvgate {

// Prints "FILE:LINE: check failed: CONDITION (message)" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const char* message);

}  // namespace kvgate

#define KVGATE_CHECK(condition, message)                              \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::kvgate::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)

// For inner loops: checked only if KVGATE_DEBUG is set (presets dev, asan, tsan).
#if KVGATE_DEBUG
#define KVGATE_DCHECK(condition, message) KVGATE_CHECK(condition, message)
#else
#define KVGATE_DCHECK(condition, message) \
  do {                                    \
  } while (false)
#endif
