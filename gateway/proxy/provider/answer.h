// Answer: what a provider says to one request, whichever provider it is: the local engine, an
// upstream whose bytes are passed on as they come, or one of another dialect. Deliver takes an
// answer to its sink. Used on the sink's executor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/proxy/request/request_context.h"

namespace kvgate::proxy::provider {

using request::kAwait;
using request::Task;

// How an answer begins.
struct Begun {
  enum class Kind : uint8_t {
    kPieces,  // with `head`, and Next gives its pieces
    kWhole,   // it is `response`
    kLeft,    // the client left before it began
    kNext,    // this provider has none, nothing was sent, and there is another one to ask
  };
  Kind kind = Kind::kLeft;
  request::AnswerHead head = {};
  request::Response response = {};
};

struct Piece {
  std::string_view bytes;  // valid until the next call of Next, or End
  bool is_last = false;
};

class Answer {
 public:
  virtual ~Answer() = default;
  // Waits until the answer begins. Called once.
  virtual Task<Begun> Begin() = 0;
  // Waits for the next piece; after kPieces only. It may be empty. Fails if the answer breaks off.
  virtual Task<Result<Piece>> Next() = 0;

  enum class Fate : uint8_t { kDelivered, kClientLeft, kCut };
  // Called once, with what became of the answer; not after kNext.
  virtual void End(Fate fate) = 0;
};

// Reads the pieces of an answer that has begun as a whole. Fails as Next does, and with kTooLarge
// beyond session::answer::kAnswerBytesMax.
Task<Result<std::string>> ReadWhole(Answer& answer);

// Takes the answer to the request's sink. Returns false if this provider has none and another one
// is to be asked.
Task<bool> Deliver(Answer& answer, request::RequestContext& request);

}  // namespace kvgate::proxy::provider
