#include "engine/model_watch.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::engine {

ModelWatch::ModelWatch(const model::EmbeddingTable& table, Options options)
    : table_(table), options_(std::move(options)), seen_(table.file()->identity()) {
  KVGATE_CHECK(options_.interval.count() > 0, "the interval of a model's watch");
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  pthread_setname_np(thread_.native_handle(), "kvgate-watch");
}

void ModelWatch::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    stopped.wait_for(lock, stop, options_.interval, [] { return false; });
    if (stop.stop_requested()) return;
    bool goes_on = true;
    (void)Attempt("engine", "looking at the model file", [&] { goes_on = Look(stop); });
    if (!goes_on) return;
  }
}

bool ModelWatch::Look(const std::stop_token& stop) {
  const modelfile::MappedFile& file = *table_.file();
  const Result<modelfile::FileIdentity> now = file.CurrentIdentity();
  if (now && *now == seen_) return true;
  const bool is_written = !now || modelfile::MayDiffer(seen_, *now);
  if (is_written) {
    const Result<void> intact = table_.CheckAll(stop);
    if (stop.stop_requested()) return false;
    if (!intact) {
      options_.on_change(intact.error());
      return false;
    }
    KVGATE_LOG(
        kWarning, "engine",
        "{} was written while it is served. What is still read of it is as it was loaded, so "
        "serving goes on with the loaded model; restart to serve the file as it is now",
        file.path().string());
  }
  if (now) seen_ = *now;
  return true;
}

}  // namespace kvgate::engine
