// Result<T>: how every expected failure travels (input, I/O, capacity, a peer).
//
// Broken invariants are KVGATE_CHECK (check.h), never a Result. Exceptions are third-party only and
// are turned into an Error where they are caught.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace kvgate {

// What kind of failure, in the caller's terms. gateway/protocol maps each to one HTTP status.
enum class ErrorCode : uint8_t {
  kInvalidArgument,   // 400: the input is wrong; `field` names it
  kUnauthenticated,   // 401
  kPermissionDenied,  // 403
  kNotFound,          // 404: model, id, record
  kTooLarge,          // 413: a size limit; detail says value and limit
  kUnsupported,       // 400 or a load error: well-formed, but not something we do
  kRateLimited,       // 429
  kOverloaded,        // 503: a queue or pool is full
  kUnavailable,       // 503: a peer or tier is not there
  kDeadline,          // 504
  kCancelled,         // 499: the caller left
  kDataLoss,          // a stored record or file failed a check
  kIo,                // the operating system refused a read or write
  kInternal,          // 500
};

std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string source;      // the part that failed: "gguf", "store.kv", "protocol.chat"
  std::string detail;      // what was being done, the value and the limit; one sentence
  std::string field = {};  // the input's field, as the caller spells it: "messages[2].content"
  bool retryable = false;
  int retry_after_seconds = 0;  // when trying again may help; 0: not known

  // "gguf: tensor 'x': offset 12 is past the end of the file (10 bytes)"
  std::string ToString() const;
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}  // NOLINT
};

inline Error MakeError(ErrorCode code, std::string_view source, std::string detail,
                       std::string field = {}) {
  return Error{.code = code,
               .source = std::string(source),
               .detail = std::move(detail),
               .field = std::move(field)};
}

}  // namespace kvgate

#define KVGATE_CONCAT_INNER(a, b) a##b
#define KVGATE_CONCAT(a, b) KVGATE_CONCAT_INNER(a, b)

// KVGATE_TRY(auto x, Compute());  binds the value or returns the error.
#define KVGATE_TRY(declaration, expression) \
  KVGATE_TRY_INNER(KVGATE_CONCAT(kvgate_try_, __LINE__), declaration, expression)
#define KVGATE_TRY_INNER(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name) [[unlikely]]                               \
    return std::move(name).error();                     \
  declaration = std::move(*name)

// KVGATE_TRY_VOID(Flush());  for Result<void>.
#define KVGATE_TRY_VOID(expression)              \
  do {                                           \
    auto kvgate_try_void = (expression);         \
    if (!kvgate_try_void) [[unlikely]]           \
      return std::move(kvgate_try_void).error(); \
  } while (false)

// The same inside a coroutine.
#define KVGATE_CO_TRY(declaration, expression) \
  KVGATE_CO_TRY_INNER(KVGATE_CONCAT(kvgate_try_, __LINE__), declaration, expression)
#define KVGATE_CO_TRY_INNER(name, declaration, expression) \
  auto name = (expression);                                \
  if (!name) [[unlikely]]                                  \
    co_return std::move(name).error();                     \
  declaration = std::move(*name)
