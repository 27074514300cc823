#include "engine/embed/embedder.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/memory_fence.h"
#include "base/thread_activity.h"

namespace kvgate::embed {
namespace {

constexpr int kRetrySeconds = 1;
// A step of one long text may take this long on a small machine before it counts as a stall.
constexpr std::chrono::milliseconds kPatience{600'000};

Error Overloaded(std::string detail) {
  Error error = MakeError(ErrorCode::kOverloaded, "embed", std::move(detail));
  error.retryable = true;
  error.retry_after_seconds = kRetrySeconds;
  return error;
}

Error Cancelled() {
  return MakeError(ErrorCode::kCancelled, "embed", "The request was cancelled.");
}

size_t CountTokens(const std::vector<std::vector<TokenId>>& texts) {
  size_t count = 0;
  for (const auto& text : texts) count += text.size();
  return count;
}

}  // namespace

// Members are guarded by the embedder's mutex, except that the step that runs reads `texts` and
// writes its own part of `vectors`.
struct Embedder::Job {
  uint64_t id = 0;
  Request request;
  Done done;
  size_t num_tokens = 0;
  size_t next = 0;  // the first text that no step has taken
  size_t num_done = 0;
  bool is_ended = false;
  SteadyClock::time_point submitted_at;
  Embeddings result;
};

struct Embedder::Step {
  struct Part {
    std::shared_ptr<Job> job;
    size_t text = 0;
  };
  std::vector<Part> parts;
  size_t num_tokens = 0;
  std::vector<float> vectors;
  // What is to be said when the mutex is released.
  std::vector<std::pair<std::shared_ptr<Job>, Result<void>>> ended;
};

Result<std::unique_ptr<Embedder>> Embedder::Open(Load load, const EmbedderOptions& options) {
  std::unique_ptr<Embedder> embedder(new Embedder(options));
  embedder->thread_ =
      std::thread([self = embedder.get(), load = std::move(load)] { self->Run(load); });
  std::unique_lock lock(embedder->mutex_);
  embedder->wake_.wait(lock, [&] { return embedder->is_loaded_; });
  const Result<void> loaded = embedder->loaded_;
  lock.unlock();
  if (!loaded) return loaded.error();
  return embedder;
}

Embedder::~Embedder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& [id, job] : jobs_) job->done(Cancelled());
}

Result<RequestId> Embedder::Submit(Request request, Done done) {
  KVGATE_CHECK(!request.texts.empty(), "a request without texts");
  const size_t num_tokens = CountTokens(request.texts);
  const auto refuse = [](std::string detail) {
    return MakeError(ErrorCode::kInvalidArgument, "embed", std::move(detail), "input");
  };
  if (request.texts.size() > options_.texts_max) {
    return refuse(fmt::format("'input' has {} texts; a request may have {}.", request.texts.size(),
                              options_.texts_max));
  }
  if (num_tokens > options_.request_tokens_max) {
    return refuse(fmt::format("'input' has {} tokens; the texts of a request may have {} together.",
                              num_tokens, options_.request_tokens_max));
  }
  auto job = std::make_shared<Job>();
  job->request = std::move(request);
  job->done = std::move(done);
  job->num_tokens = num_tokens;
  job->submitted_at = SteadyClock::now();
  job->result.vectors.resize(job->request.texts.size() * static_cast<size_t>(info_.dimensions));
  const std::lock_guard lock(mutex_);
  const std::string& tenant = job->request.tenant;
  const auto own_max = std::max<size_t>(
      1, static_cast<size_t>(static_cast<double>(options_.queue_max) * options_.tenant_share));
  const auto own = num_jobs_of_.find(tenant);
  const size_t num_own = own == num_jobs_of_.end() ? 0 : own->second;
  if (jobs_.size() >= options_.queue_max || num_own >= own_max ||
      queue_tokens_ + num_tokens > options_.queue_tokens_max) {
    ++stats_.num_refused;
    return Overloaded(
        fmt::format("{} requests for embeddings are waiting, {} of them yours; try "
                    "again later.",
                    jobs_.size(), num_own));
  }
  job->id = next_id_++;
  jobs_.emplace(job->id, job);
  ++num_jobs_of_[tenant];
  tenants_[tenant].push_back(job);
  queue_tokens_ += num_tokens;
  wake_.notify_all();
  return RequestId{job->id};
}

void Embedder::Cancel(RequestId id) {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(id.value);
    if (found == jobs_.end()) return;
    job = found->second;
    Remove(job);
  }
  job->done(Cancelled());
}

EmbedderStats Embedder::Stats() const {
  const std::lock_guard lock(mutex_);
  EmbedderStats stats = stats_;
  stats.num_waiting = jobs_.size();
  return stats;
}

// REQUIRES: mutex_ is held.
void Embedder::Remove(const std::shared_ptr<Job>& job) {
  if (std::exchange(job->is_ended, true)) return;
  const std::string& tenant = job->request.tenant;
  jobs_.erase(job->id);
  queue_tokens_ -= job->num_tokens;
  ++stats_.num_requests;
  if (const auto own = num_jobs_of_.find(tenant); --own->second == 0) num_jobs_of_.erase(own);
  const auto queue = tenants_.find(tenant);
  if (queue == tenants_.end()) return;
  std::erase(queue->second, job);
  if (queue->second.empty()) tenants_.erase(queue);
}

void Embedder::Run(const Load& load) {
  // On Linux this sets the priority of the calling thread alone, and of those that it starts.
  if (options_.nice > 0) (void)::setpriority(PRIO_PROCESS, 0, options_.nice);
  Result<Loaded> loaded = MakeError(ErrorCode::kOverloaded, "embed", "no memory to load a model");
  try {
    loaded = load();
  } catch (const std::bad_alloc& failure) {
    LogFailure("embed", "loading: ", "", failure);
  } catch (const std::exception& failure) {  // the system has no thread left
    LogFailure("embed", "loading: ", "", failure);
    loaded = MakeError(ErrorCode::kOverloaded, "embed", failure.what());
  }
  {
    const std::lock_guard lock(mutex_);
    is_loaded_ = true;
    loaded_ = loaded ? Result<void>() : Result<void>(loaded.error());
    if (loaded) {
      const EmbeddingModel& model = *loaded->model;
      info_ = {.model = model.config(),
               .backend = loaded->backend->Info(),
               .dimensions = model.dimensions(),
               .context_tokens = model.context_tokens(),
               .weight_bytes = model.weight_bytes()};
    }
  }
  wake_.notify_all();
  if (!loaded) return;
  RunSteps(*loaded);
}

void Embedder::RunSteps(Loaded& loaded) {
  ThreadActivity activity({.pool = "embed", .patience = kPatience});
  Step step;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !tenants_.empty(); });
      if (stopping_) return;
      Insist([&] { PlanStep(*loaded.model, step); });
    }
    activity.Begin("embed");
    RunStep(*loaded.model, step);
    activity.End();
  }
}

// Takes nothing out of the queues, so that it can be repeated if memory runs out.
void Embedder::PlanStep(const EmbeddingModel& model, Step& step) {
  step.parts.clear();
  step.ended.clear();
  step.num_tokens = 0;
  auto tenant = tenants_.upper_bound(last_);
  for (size_t i = 0; i < tenants_.size(); ++i, ++tenant) {
    if (tenant == tenants_.end()) tenant = tenants_.begin();
    bool fits = true;
    for (const std::shared_ptr<Job>& job : tenant->second) {
      for (size_t text = job->next; fits && text < job->request.texts.size(); ++text) {
        const size_t more = job->request.texts[text].size();
        fits = model.Fits(step.parts.size(), step.num_tokens, more);
        if (!fits) break;
        step.parts.push_back({.job = job, .text = text});
        step.num_tokens += more;
      }
      if (!fits) break;
    }
  }
  step.vectors.resize(step.parts.size() * static_cast<size_t>(info_.dimensions));
  step.ended.reserve(step.parts.size());
  last_ = step.parts.front().job->request.tenant;
  const auto now = SteadyClock::now();
  for (const Step::Part& part : step.parts) {
    Job& job = *part.job;
    if (job.next == 0) {
      job.result.queue_seconds = std::chrono::duration<double>(now - job.submitted_at).count();
    }
    job.next = part.text + 1;
  }
}

void Embedder::RunStep(EmbeddingModel& model, Step& step) {
  const auto begun = SteadyClock::now();
  Result<void> ran = Overloaded("There was no memory for the texts.");
  try {
    std::vector<EmbeddingModel::Text> texts;
    for (const Step::Part& part : step.parts) texts.push_back(part.job->request.texts[part.text]);
    ran = model.Embed(texts, step.vectors);
  } catch (const std::bad_alloc& failure) {
    LogFailure("embed", "a step: ", "", failure);
  }
  const std::chrono::duration<double> seconds = SteadyClock::now() - begun;
  {
    const std::lock_guard lock(mutex_);
    Settle(step, ran, seconds.count());
  }
  for (const auto& [job, end] : step.ended) {
    job->done(end ? Result<Embeddings>(std::move(job->result)) : Result<Embeddings>(end.error()));
  }
}

// REQUIRES: mutex_ is held. A step that fails ends the requests that it has texts of.
void Embedder::Settle(Step& step, const Result<void>& ran, double seconds) {
  const auto width = static_cast<size_t>(info_.dimensions);
  ++stats_.num_steps;
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const auto& [job, text] = step.parts[i];
    if (job->is_ended) continue;
    const size_t num_tokens = job->request.texts[text].size();
    if (!ran) {
      Remove(job);
      step.ended.emplace_back(job, ran);
      continue;
    }
    std::copy_n(step.vectors.begin() + static_cast<ptrdiff_t>(i * width), width,
                job->result.vectors.begin() + static_cast<ptrdiff_t>(text * width));
    job->result.compute_seconds +=
        seconds * static_cast<double>(num_tokens) / static_cast<double>(step.num_tokens);
    job->result.num_tokens += num_tokens;
    ++stats_.num_texts;
    stats_.num_tokens += num_tokens;
    if (++job->num_done < job->request.texts.size()) continue;
    Remove(job);
    step.ended.emplace_back(job, Result<void>());
  }
  // Requests whose last texts were taken have nothing left to begin.
  for (const Step::Part& part : step.parts) {
    if (part.job->is_ended || part.job->next < part.job->request.texts.size()) continue;
    const auto queue = tenants_.find(part.job->request.tenant);
    if (queue == tenants_.end()) continue;
    std::erase(queue->second, part.job);
    if (queue->second.empty()) tenants_.erase(queue);
  }
}

}  // namespace kvgate::embed
