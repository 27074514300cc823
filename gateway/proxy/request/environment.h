// Environment: what all requests of a gateway share. It outlives them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "gateway/ledger/prices.h"
#include "gateway/proxy/request/targets.h"
#include "gateway/proxy/work/background.h"
#include "gateway/proxy/work/body_budget.h"
#include "gateway/service/service.h"
#include "gateway/service/work_pools.h"
#include "gateway/session/compaction/cleared_marks.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/model_list.h"

namespace kvgate {
class Keyring;
}

namespace kvgate::session {
class Sessions;
}

namespace kvgate::session::prompts {
class NamedPrompts;
}

namespace kvgate::telemetry {
class RecordFeed;
}

namespace kvgate::proxy::request {

struct Options {
  // A caller that shows it is an admin; empty: no token is accepted.
  std::string admin_token = {};
  size_t body_bytes_max = size_t{64} << 20;         // also of a body that came encoded
  std::chrono::milliseconds ping_interval{10'000};  // on a silent stream
  // A stream begins with its first event, or after this time. An error that comes before is
  // answered with its own status instead of as an event.
  std::chrono::milliseconds head_delay{2'000};
  // Keeps accounts of forwarded requests; may be null.
  upstream::ExchangeLog* exchange_log = nullptr;
  // Examines the prompts of forwarded requests; null: prompts are not examined.
  service::Prompts* prompts = nullptr;
  // Keeps the sessions that requests name; null: none are kept.
  session::Sessions* sessions = nullptr;
  // The prompts that requests name; null: there are none.
  session::prompts::NamedPrompts* named_prompts = nullptr;
  // Makes embeddings with a local model; null: none is configured.
  const local::embeddings::PublishedProvider* embeddings = nullptr;
  // Seals what clients carry for the gateway; null: it makes no compactions.
  const Keyring* keyring = nullptr;
  // Shows records as they are added; null: there are none.
  telemetry::RecordFeed* feed = nullptr;
  // What is known of providers' caches; null: nothing is.
  const ledger::Prices* prices = nullptr;
  // Requests become spans at a collector, so that upstreams are told which one they belong to.
  bool has_spans = false;
};

struct Environment {
  const Options options;
  service::Service& service;
  service::WorkPools& pools;
  work::BodyBudget& bodies;
  const CurrentTargets& targets;
  upstream::ModelListCache& model_lists;
  // Bytes of bodies that wait to be hashed on a worker; the last of them may outlive this.
  std::shared_ptr<std::atomic<size_t>> shared_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  // What goes on when a request has been answered; its jobs end before this.
  std::shared_ptr<work::Background> background = std::make_shared<work::Background>();
  // Jobs that wait for a time to come, and hold little meanwhile.
  std::shared_ptr<work::Background> waiting = std::make_shared<work::Background>(4096);
  // How far conversations whose prompts are cleared of old results have been cleared.
  std::shared_ptr<session::compaction::ClearedMarks> cleared_marks =
      std::make_shared<session::compaction::ClearedMarks>();
  // True while one request asks the stores for their numbers; that work may outlive this.
  std::shared_ptr<std::atomic<bool>> refreshing = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace kvgate::proxy::request
