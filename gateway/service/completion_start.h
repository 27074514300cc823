// CompletionStart takes a request to its completion in steps that belong to different threads:
// preparing the prompt, decoding, rendering and tokenizing; compiling the grammar of the answer;
// and waiting for the disk. The driver asks next(), runs that step on the right threads, and
// repeats until next() is kNone:
//
//   while (start.next() != Place::kNone) {
//     if (start.next() == Place::kStore) { work = start.StoreWork(); …; start.EndStore(done); }
//     else start.Run();
//   }
//
// What is decoded is the prepared body. If it is refused, the request is taken as it was received:
// it is then answered, or the error names a field of the caller's own body.
//
// One thread may use it at a time. Service::Start drives it on the caller's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "gateway/service/service.h"

namespace kvgate::service {

class CompletionStart {
 public:
  // kCount counts the tokens of the prompt and generates no answer; TakeCount returns the count.
  enum class Use : uint8_t { kAnswer, kCount };
  // `service` must outlive it; the body and the credential must stay valid until it is done.
  CompletionStart(Service& service, const Service::StartArgs& args, Use use = Use::kAnswer);
  ~CompletionStart();
  CompletionStart(const CompletionStart&) = delete;
  CompletionStart& operator=(const CompletionStart&) = delete;

  enum class Place : uint8_t { kRequest, kCompile, kStore, kNone };
  Place next() const { return next_; }
  // Returns true if the answer will be stored, as far as is known at this step.
  bool keeps() const { return turn_ != nullptr && turn_->shape.stored; }

  // Runs a step. REQUIRES: next() is kRequest or kCompile.
  void Run();
  // StoreWork returns the work that waits for the disk. It owns all it uses, because a hanging disk
  // may never release its thread; it is called once. EndStore reports that it is done, or why the
  // driver no longer waits for it. REQUIRES: next() is kStore.
  std::function<void()> StoreWork();
  void EndStore(const Result<void>& done);
  // Returns how long the driver waits for that work, which is run in any case; nullopt: as long as
  // for any other of the store, after which it is given up. REQUIRES: next() is kStore.
  std::optional<std::chrono::milliseconds> patience() const;
  // Ends the request with this error, at any step.
  void Fail(Error error);

  // REQUIRES: next() is kNone.
  Result<std::unique_ptr<Completion>> Take();
  Result<std::string> TakeCount();

 private:
  // kRemember restores what the conversation has sent, kRecall the reasoning of its answers.
  enum class Step : uint8_t {
    kDecode,
    kLoad,
    kPrepare,
    kRemember,
    kRecall,
    kSubmit,
    kKeep,
  };
  struct Lookup;

  Result<void> RunStep();
  Result<void> Decode();
  Result<void> Prepare();
  Result<Prompts::Prompt> Ask(Prompts& prompts) const;
  bool MakeWhole();
  Result<void> FitWindow();
  Result<void> DecodePrepared();
  Result<void> Compose();
  void StartAsReceived();
  Result<std::unique_ptr<local::EventStream>> RunLocally();
  Result<void> Submit();
  Result<void> Count();
  void AddReasoningHook();
  void SayLosses() const;
  void GoTo(Step step);
  dialect::reply::ReplyOptions OptionsOf() const;

  Service& service_;
  const Service::StartArgs args_;
  const Use use_;
  const std::string tenant_;  // the owner of prefixes and turns
  std::unique_ptr<LocalRecord> record_;
  Step step_ = Step::kDecode;
  Place next_ = Place::kRequest;
  std::string whole_;            // see WholeBody; empty: the received body is prepared
  bool is_windowed_ = false;     // it leaves out what its session's window does
  bool is_as_received_ = false;  // what was prepared has been refused
  bool is_recalled_ = false;     // what the conversation has sent has been restored
  bool is_changed_ = false;      // the prepared body is not the received one
  Prompts::Prompt prompt_;
  std::shared_ptr<session::Responses::Draft> draft_;
  std::shared_ptr<session::ResponseTurn> turn_;
  dialect::form::CompletionRequest request_;
  const local::LocalProvider* local_ = nullptr;
  session::ReasoningMemory::Plan plan_;
  std::shared_ptr<Lookup> lookup_;
  std::vector<session::AnswerHook> hooks_;
  std::string compaction_;  // see Completion::Parts
  Result<std::unique_ptr<Completion>> completion_;
  std::string count_;
};

}  // namespace kvgate::service
