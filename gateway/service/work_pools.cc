#include "gateway/service/work_pools.h"

namespace kvgate::service {

void WorkPools::Collect(metrics::TextWriter& writer) const {
  const auto family = [&](const char* name, const char* type, const char* help, auto value) {
    writer.Family(name, type, help);
    for (const WorkQueue* pool : all()) {
      writer.Sample(name, {{"pool", pool->name()}}, static_cast<uint64_t>(value(pool->stats())));
    }
  };
  family("kvgate_work_queued", "gauge", "Pieces of work that wait for a thread, by pool.",
         [](const WorkQueue::Stats& stats) { return stats.num_queued; });
  family("kvgate_work_running", "gauge", "Pieces of work that have a thread.",
         [](const WorkQueue::Stats& stats) { return stats.num_running; });
  family("kvgate_work_done_total", "counter", "Pieces of work that have come to an end.",
         [](const WorkQueue::Stats& stats) { return stats.num_done; });
  family("kvgate_work_refused_total", "counter", "Pieces of work that found no place.",
         [](const WorkQueue::Stats& stats) { return stats.num_refused; });
}

}  // namespace kvgate::service
