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

// Why something failed.
enum class Status {
  kOk = KVGATE_OK,                               // it did not
  kInvalidArgument = KVGATE_INVALID_ARGUMENT,    // the request is wrong; see Error::field
  kUnauthenticated = KVGATE_UNAUTHENTICATED,     // no key, or a wrong one
  kPermissionDenied = KVGATE_PERMISSION_DENIED,  // the key may not do this
  kNotFound = KVGATE_NOT_FOUND,                  // no such model, session, prefix, file
  kConflict = KVGATE_CONFLICT,                   // somebody else has gone on with the session
  kTooLarge = KVGATE_TOO_LARGE,                  // the body is above the limit
  kContextExceeded = KVGATE_CONTEXT_EXCEEDED,    // the prompt does not fit into the context
  kRateLimited = KVGATE_RATE_LIMITED,            // see Error::retry_after
  kOverloaded = KVGATE_OVERLOADED,               // there is no room now
  kUnavailable = KVGATE_UNAVAILABLE,  // no server or provider was reached, or an answer broke off
  kDeadlineExceeded = KVGATE_DEADLINE_EXCEEDED,  // CallOptions::timeout is over
  kCancelled = KVGATE_CANCELLED,                 // its stop_token was, or the client was closed
  kInternal = KVGATE_INTERNAL,                   // what should not happen
};

// "INVALID_ARGUMENT"
inline std::string_view StatusName(Status status) {
  return kvgate_status_name(static_cast<kvgate_status>(status));
}

// Why something failed, for a program and for a person.
struct Error {
  Status status = Status::kInternal;  // for a program
  std::string message;                // one sentence for a person
  std::string field = {};             // of the request: "messages[2].content"; empty: none is wrong
  std::string code = {};              // of the HTTP interface: "context_length_exceeded"
  int http_status = 0;                // 0: there was no answer
  std::chrono::milliseconds retry_after{0};  // when a retry may succeed; 0: not known
  std::string request_id = {};               // x-kvgate-request-id of the answer

  // "NOT_FOUND: The model 'x' does not exist."
  std::string ToString() const { return std::string(StatusName(status)) + ": " + message; }
};

// Result::value() without a value.
class BadResult : public std::runtime_error {
 public:
  // Its what() is the error's ToString().
  explicit BadResult(Error error)
      : std::runtime_error(error.ToString()), error_(std::move(error)) {}
  // Why there was no value.
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  // So that a function can return its value.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // So that a function can return its error.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  // True if there is a value.
  bool ok() const { return value_.has_value(); }
  // The same, for `if (result)`.
  explicit operator bool() const { return ok(); }
  // The value. REQUIRES: ok()
  T& operator*() & { return *value_; }
  // The value. REQUIRES: ok()
  const T& operator*() const& { return *value_; }
  // The value, to be moved from. REQUIRES: ok()
  T&& operator*() && { return *std::move(value_); }
  // A member of the value. REQUIRES: ok()
  T* operator->() { return &*value_; }
  // A member of the value. REQUIRES: ok()
  const T* operator->() const { return &*value_; }
  // Why there is no value. REQUIRES: !ok()
  const Error& error() const { return error_; }
  // Throws BadResult without a value.
  T& value() & {
    Check();
    return *value_;
  }
  // The same of a temporary, whose value is moved out.
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

// Nothing, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  // It went well.
  Result() = default;
  // So that a function can return its error.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  // True if there is no error.
  bool ok() const { return !error_.has_value(); }
  // The same, for `if (result)`.
  explicit operator bool() const { return ok(); }
  // Why it failed. REQUIRES: !ok()
  const Error& error() const { return *error_; }
  // Throws BadResult if it failed.
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
