// Result, Error and Status: how the C++ interface says that something failed. Nothing is thrown,
// but by value() of a result that has none.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <kvgate.h>

namespace kvgate {
inline namespace v1 {

enum class Status {
  kOk = KVGATE_OK,
  kInvalidArgument = KVGATE_INVALID_ARGUMENT,
  kUnauthenticated = KVGATE_UNAUTHENTICATED,
  kPermissionDenied = KVGATE_PERMISSION_DENIED,
  kNotFound = KVGATE_NOT_FOUND,
  kConflict = KVGATE_CONFLICT,
  kTooLarge = KVGATE_TOO_LARGE,
  kContextExceeded = KVGATE_CONTEXT_EXCEEDED,
  kRateLimited = KVGATE_RATE_LIMITED,
  kOverloaded = KVGATE_OVERLOADED,
  kUnavailable = KVGATE_UNAVAILABLE,
  kDeadlineExceeded = KVGATE_DEADLINE_EXCEEDED,
  kCancelled = KVGATE_CANCELLED,
  kInternal = KVGATE_INTERNAL,
};

// "INVALID_ARGUMENT"
inline std::string_view StatusName(Status status) {
  return kvgate_status_name(static_cast<kvgate_status>(status));
}

struct Error {
  Status status = Status::kInternal;
  std::string message;     // one sentence for a person
  std::string field = {};  // of the request: "messages[2].content"; empty: none is wrong
  std::string code = {};   // of the HTTP interface: "context_length_exceeded"
  int http_status = 0;     // 0: there was no answer
  std::chrono::milliseconds retry_after{0};  // when a retry may succeed; 0: not known
  std::string request_id = {};

  // "NOT_FOUND: The model 'x' does not exist."
  std::string ToString() const { return std::string(StatusName(status)) + ": " + message; }
};

class BadResult : public std::runtime_error {
 public:
  explicit BadResult(Error error)
      : std::runtime_error(error.ToString()), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok()
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // REQUIRES: !ok()
  const Error& error() const { return error_; }
  // Throws BadResult without a value.
  T& value() & {
    Check();
    return *value_;
  }
  T value() && {
    Check();
    return *std::move(value_);
  }

 private:
  void Check() const {
    if (!ok()) throw BadResult(error_);
  }

  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }
  void value() const {
    if (!ok()) throw BadResult(*error_);
  }

 private:
  std::optional<Error> error_;
};

namespace detail {

// Takes over an error of the C interface.
inline Error TakeError(kvgate_status status, kvgate_error* error) {
  if (error == nullptr) {
    return {.status = static_cast<Status>(status), .message = "there is no memory left"};
  }
  Error taken{.status = static_cast<Status>(kvgate_error_status(error)),
              .message = kvgate_error_message(error),
              .field = kvgate_error_field(error),
              .code = kvgate_error_code(error),
              .http_status = kvgate_error_http_status(error),
              .retry_after = std::chrono::milliseconds(kvgate_error_retry_after_ms(error)),
              .request_id = kvgate_error_request_id(error)};
  kvgate_error_free(error);
  return taken;
}

}  // namespace detail
}  // namespace v1
}  // namespace kvgate
