// LocalAnswer: the local engine's answer to one request: one body, or a stream of events with pings
// while a long prompt is computed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "gateway/dialect/request_translator.h"
#include "gateway/proxy/provider/answer.h"
#include "gateway/service/completion_start.h"

namespace kvgate::proxy::provider {

class LocalAnswer final : public Answer, private request::Watcher {
 public:
  struct Options {
    bool any_model = false;  // a route has chosen the engine, whatever model the body names
    bool has_next = false;   // another provider can be asked if this one has no room
  };
  LocalAnswer(request::RequestContext& request, Options options);
  ~LocalAnswer() override;

  Task<Begun> Begin() override;
  Task<Result<Piece>> Next() override;
  void End(Fate fate) override;

 private:
  void OnEnd() override;
  Task<Result<void>> Start();
  Task<Begun> BeginWhole();
  Task<Begun> BeginStream();
  // The next output of the completion, with what it stores written first.
  Task<service::Completion::Output> TakeOutput();
  // Charges the caller's key. Called before the last bytes go out, because the client's next
  // request may arrive before this thread goes on.
  void Settle();
  Begun Whole(service::Completion::Output output);

  request::RequestContext& request_;
  const Options options_;
  std::optional<dialect::TranslatedRequest> translated_;  // until the engine has taken it
  std::unique_ptr<service::Completion> completion_;
  bool is_settled_ = false;
  bool has_head_ = false;      // the stream has begun
  bool is_first_due_ = false;  // text_ is the first piece, which Begin found
  bool is_finished_ = false;
  std::string text_;  // the piece that is under way
  std::chrono::steady_clock::time_point last_piece_;
};

// Gemini's clients may ask for a stream as an array of JSON, which only Gemini's servers write: an
// error for such a request.
Result<void> CheckFraming(const request::RequestContext& request);
// Says a request of Gemini's dialect in the one that the engine is asked in. Fails with the field
// at fault, as Gemini's clients spell it.
Task<Result<dialect::TranslatedRequest>> TranslateForEngine(request::RequestContext& request);

// Runs each step of a start on the pool that it needs. An answer that is to be stored is not begun
// while the disk is known not to answer.
Task<void> DriveStart(request::RequestContext& request, service::CompletionStart& start);

}  // namespace kvgate::proxy::provider
