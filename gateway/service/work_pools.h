// WorkPools holds the threads behind the event loops, one pool for each kind of work that may hold
// a thread for long, so that none delays another: waits for the disk happen in `store` and `bulk`,
// grammars that take seconds compile in `compile`, and `request` never waits for either. Requests
// that need no pool (/health, /ready, /metrics) are answered on the event loops.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "gateway/metrics/registry.h"
#include "gateway/service/work_queue.h"

namespace kvgate::service {

class WorkPools {
 public:
  struct Options {
    int request_threads = 3;  // decoding, tokenizing, hashing; one tenant gets at most one fewer
    int compile_threads = 2;  // schemas and grammars
    int store_threads = 4;    // short waits for the disk: turns, pins, records
    int bulk_threads = 2;     // long waits: verifying, prefix files
    size_t queue_max = 1024;  // of each pool
    double tenant_share = 0.5;
    // How long the disk may take before the caller is told that it does not answer: for one piece
    // of work in `store`, for one step of it in `bulk`.
    std::chrono::milliseconds store_timeout{10'000};
    std::chrono::milliseconds bulk_timeout{60'000};
  };
  explicit WorkPools(const Options& options)
      : options_(options),
        request({.name = "request",
                 .threads = options.request_threads,
                 .queue_max = options.queue_max,
                 .tenant_share = options.tenant_share}),
        compile({.name = "compile",
                 .threads = options.compile_threads,
                 .queue_max = options.queue_max,
                 .tenant_share = options.tenant_share,
                 .nice = kCompileNice}),
        store({.name = "store",
               .threads = options.store_threads,
               .queue_max = options.queue_max,
               .tenant_share = options.tenant_share,
               .waits_for_disk = true,
               .stalled_after = options.store_timeout}),
        bulk({.name = "bulk",
              .threads = options.bulk_threads,
              .queue_max = options.queue_max,
              .tenant_share = options.tenant_share,
              .waits_for_disk = true,
              .patience = options.bulk_timeout}) {}

  const Options& options() const { return options_; }
  std::array<const WorkQueue*, 4> all() const { return {&request, &compile, &store, &bulk}; }
  void Collect(metrics::TextWriter& writer) const;

 private:
  // Compiling a grammar may take seconds, so it yields the cores to token generation.
  static constexpr int kCompileNice = 5;

  const Options options_;

 public:
  WorkQueue request;
  WorkQueue compile;
  WorkQueue store;
  WorkQueue bulk;
};

}  // namespace kvgate::service
