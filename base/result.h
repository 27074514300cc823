// Result<T>: the return type of everything that can fail as expected (input, I/O, capacity, a
// peer).
//
// Broken invariants use KVGATE_CHECK (check.h), never a Result. Exceptions come from third-party
// code only and are turned into an Error where they are caught.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace kvgate {

// The kind of failure, in the caller's terms. gateway/dialect maps each one to an HTTP status.
enum class ErrorCode : uint8_t {
  kInvalidArgument,   // 400: the input is wrong; `field` names it
  kUnauthenticated,   // 401
  kPermissionDenied,  // 403
  kNotFound,          // 404: model, id, record
  kTooLarge,          // 413: a size limit; detail has value and limit
  kUnsupported,       // 400 or a load error: well-formed, but not supported
  kRateLimited,       // 429
  kOverloaded,        // 503: a queue or pool is full
  kUnavailable,       // 503: a peer or tier is not reachable
  kDeadline,          // 504
  kCancelled,         // 499: the client left
  kDataLoss,          // a stored record or file failed a check
  kIo,                // the operating system refused a read or write
  kInternal,          // 500
};

std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string source;      // the part that failed: "gguf", "store.kv", "protocol.chat"
  std::string detail;      // one sentence: what was attempted, the value and the limit
  std::string field = {};  // the input's field in the caller's spelling: "messages[2].content"
  bool retryable = false;
  int retry_after_seconds = 0;  // when a retry may succeed; 0 means unknown

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

// KVGATE_TRY(auto x, Compute()) binds the value or returns the error.
#define KVGATE_TRY(declaration, expression) \
  KVGATE_TRY_INNER(KVGATE_CONCAT(kvgate_try_, __LINE__), declaration, expression)
#define KVGATE_TRY_INNER(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name) [[unlikely]]                               \
    return std::move(name).error();                     \
  declaration = std::move(*name)

// KVGATE_TRY_VOID(Flush()) does the same for Result<void>.
#define KVGATE_TRY_VOID(expression)              \
  do {                                           \
    auto kvgate_try_void = (expression);         \
    if (!kvgate_try_void) [[unlikely]]           \
      return std::move(kvgate_try_void).error(); \
  } while (false)

// The same as KVGATE_TRY inside a coroutine.
#define KVGATE_CO_TRY(declaration, expression) \
  KVGATE_CO_TRY_INNER(KVGATE_CONCAT(kvgate_try_, __LINE__), declaration, expression)
#define KVGATE_CO_TRY_INNER(name, declaration, expression) \
  auto name = (expression);                                \
  if (!name) [[unlikely]]                                  \
    co_return std::move(name).error();                     \
  declaration = std::move(*name)
