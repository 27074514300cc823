// CompletionStart: a request on its way to its completion, in steps that belong to different
// threads: decoding, rendering and tokenizing, compiling what the answer must be, and what waits
// for the disk. Whoever drives it asks next(), runs that step where it belongs, and goes on until
// it is kNone:
//
//   while (start.next() != Place::kNone) {
//     if (start.next() == Place::kStore) { work = start.StoreWork(); …; start.EndStore(done); }
//     else start.Run();
//   }
//
// One thread at a time. Service::Start drives it on the caller's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <kvgate/result.h>

#include "gateway/service/service.h"

namespace kvgate::service {

class CompletionStart {
 public:
  // kCount: the tokens of its prompt are wanted and no answer; then TakeCount has it.
  enum class Use : uint8_t { kAnswer, kCount };
  // `service` outlives it; the body and the credential stay until it is done.
  CompletionStart(Service& service, const Service::StartArgs& args, Use use = Use::kAnswer);
  ~CompletionStart();
  CompletionStart(const CompletionStart&) = delete;
  CompletionStart& operator=(const CompletionStart&) = delete;

  enum class Place : uint8_t { kRequest, kCompile, kStore, kNone };
  Place next() const { return next_; }
  // Whether its answer will be stored, as far as that is known.
  bool keeps() const { return turn_ != nullptr && turn_->shape.stored; }

  // At kRequest and kCompile.
  void Run();
  // At kStore: what waits for the disk. It owns what it uses, since a disk that hangs may never let
  // go of the thread; called once. EndStore says that it is done, or why nobody waits any longer.
  std::function<void()> StoreWork();
  void EndStore(const Result<void>& done);
  // Ends it, wherever it is.
  void Fail(Error error);

  // At kNone.
  Result<std::unique_ptr<Completion>> Take();
  Result<std::string> TakeCount();

 private:
  enum class Step : uint8_t { kDecode, kLoad, kCompose, kRecall, kSubmit };
  struct Lookup;

  Result<void> RunStep();
  Result<void> Decode();
  Result<void> Compose();
  Result<void> Submit();
  Result<void> Count();
  void AddReasoningHook();
  void SayLeftOut() const;
  void GoTo(Step step);
  std::vector<protocol::Message>* Messages();
  protocol::ReplyOptions OptionsOf() const;

  Service& service_;
  const Service::StartArgs args_;
  const Use use_;
  const std::string tenant_;  // whose prefixes and turns
  std::unique_ptr<LocalRecord> record_;
  Step step_ = Step::kDecode;
  Place next_ = Place::kRequest;
  std::shared_ptr<Responses::Draft> draft_;
  std::shared_ptr<ResponseTurn> turn_;
  protocol::CompletionRequest request_;
  const provider::LocalProvider* local_ = nullptr;
  ReasoningMemory::Plan plan_;
  std::shared_ptr<Lookup> lookup_;
  std::vector<AnswerHook> hooks_;
  Result<std::unique_ptr<Completion>> completion_;
  std::string count_;
};

}  // namespace kvgate::service
