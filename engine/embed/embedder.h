// Embedder: texts in, vectors out, on one thread of its own that computes step after step. It is
// beside the engine and shares nothing with it but the machine: its threads have a lower priority,
// so that chats do not wait for it.
//
// Requests are taken through a bounded queue. Tenants take turns: each step begins with the next
// tenant's texts and is filled up with those of the others, so a long request delays another
// tenant's by a step at most. The vector of a text does not depend on what shares its step.
//
// Submit, Cancel and Stats may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/embed/embedding_model.h"

namespace kvgate::embed {

struct EmbedderOptions {
  size_t queue_max = 256;     // requests that wait or run; more are refused
  double tenant_share = 0.5;  // of the queue for one tenant; at least one place
  size_t texts_max = 2048;    // of one request
  size_t request_tokens_max = 300'000;
  size_t queue_tokens_max = 4'000'000;  // of all requests together
  int nice = 10;                        // the nice(1) value of its thread
};

struct Embeddings {
  std::vector<float> vectors = {};  // [texts, dimensions], each of length 1
  uint64_t num_tokens = 0;
  double queue_seconds = 0;    // until its first step began
  double compute_seconds = 0;  // of its steps, each in the share of its tokens
};

struct EmbedderStats {
  uint64_t num_requests = 0;  // that have ended
  uint64_t num_texts = 0;
  uint64_t num_tokens = 0;
  uint64_t num_steps = 0;
  uint64_t num_refused = 0;  // for lack of capacity
  uint64_t num_waiting = 0;  // requests that have not ended
};

class Embedder {
 public:
  // Makes the model on the embedder's thread, whose priority the threads of the model's backend
  // inherit; what it returns is used and destroyed there.
  struct Loaded {
    std::unique_ptr<kernels::Backend> backend;  // outlives the model
    std::unique_ptr<EmbeddingModel> model;
  };
  using Load = std::function<Result<Loaded>()>;
  // Waits until the model has been loaded. Fails as `load` does.
  static Result<std::unique_ptr<Embedder>> Open(Load load, const EmbedderOptions& options = {});
  // Ends what waits with kCancelled; waits for the step that runs.
  ~Embedder();
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  struct Info {
    model::ModelConfig model;
    kernels::BackendInfo backend;
    int dimensions = 0;
    int context_tokens = 0;
    uint64_t weight_bytes = 0;
  };
  const Info& info() const { return info_; }
  const EmbedderOptions& options() const { return options_; }

  struct Request {
    std::vector<std::vector<TokenId>> texts;  // of 1 to context_tokens tokens each
    std::string tenant = {};
  };
  // `done` is called once, on the embedder's thread or that of the destructor, and must not throw.
  using Done = std::function<void(Result<Embeddings>)>;
  // Fails with kInvalidArgument for a request that can never be taken (detail says the limit), with
  // kOverloaded if the queue is full. `done` is then not called. REQUIRES: texts are not empty, and
  // of tokens of the vocabulary.
  Result<RequestId> Submit(Request request, Done done);
  // Drops what is left of a request. `done` is called with kCancelled, unless the request has
  // ended.
  void Cancel(RequestId id);
  EmbedderStats Stats() const;

 private:
  struct Job;
  struct Step;
  explicit Embedder(const EmbedderOptions& options) : options_(options) {}

  void Run(const Load& load);
  void RunSteps(Loaded& loaded);
  // REQUIRES: mutex_ is held.
  void PlanStep(const EmbeddingModel& model, Step& step);
  void RunStep(EmbeddingModel& model, Step& step);
  void Settle(Step& step, const Result<void>& ran, double seconds);
  void Remove(const std::shared_ptr<Job>& job);

  const EmbedderOptions options_;
  Info info_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Result<void> loaded_ = MakeError(ErrorCode::kUnavailable, "embed", "loading");
  bool is_loaded_ = false;  // or has failed to
  bool stopping_ = false;
  uint64_t next_id_ = 1;
  size_t queue_tokens_ = 0;
  EmbedderStats stats_;
  std::map<uint64_t, std::shared_ptr<Job>> jobs_;                    // all that have not ended
  std::map<std::string, std::deque<std::shared_ptr<Job>>> tenants_;  // those with texts to begin
  std::map<std::string, size_t> num_jobs_of_;                        // of each tenant
  std::string last_;                                                 // had the last first turn
  std::thread thread_;  // declared last: it uses all other members
};

}  // namespace kvgate::embed
