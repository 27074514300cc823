// WorkPools: the threads behind the event loops, one pool for each thing that may hold a thread for
// long, so that none of them holds up another: what a disk keeps waiting waits in `store` and
// `bulk`, a grammar that takes seconds to compile in `compile`; `request` never waits for either.
// What needs none of them (/health, /ready, /metrics) is answered on the event loops.
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
    int request_threads = 3;  // decoding, tokenizing, hashing; a tenant has one fewer
    int compile_threads = 2;  // schemas and grammars
    int store_threads = 4;    // short waits for the disk: turns, pins, records
    int bulk_threads = 2;     // long ones: verifying, files of prefixes
    size_t queue_max = 1024;  // of each
    double tenant_share = 0.5;
    // How long the disk may take for one piece of work before whoever waits is told that it does
    // not answer; of bulk work for one step.
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
  // A grammar that takes seconds gives way to the tokens of everybody else.
  static constexpr int kCompileNice = 5;

  const Options options_;

 public:
  WorkQueue request;
  WorkQueue compile;
  WorkQueue store;
  WorkQueue bulk;
};

}  // namespace kvgate::service
