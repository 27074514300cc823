// The part of Service that reports on it: models, statistics, metrics.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/local/engine_metrics.h"
#include "gateway/local/shared_numbers.h"
#include "gateway/local/vllm_metrics.h"
#include "gateway/service/service.h"

namespace kvgate::service {

using access::Caller;

namespace {

using dialect::form::JsonWriter;

void WriteModel(std::string_view id, int64_t created_unix, JsonWriter& json) {
  json.BeginObject().Key("id").String(id).Key("object").String("model");
  json.Key("created").Integer(created_unix).Key("owned_by").String("kvgate").EndObject();
}

using Field = std::pair<const char*, uint64_t>;

std::vector<Field> EngineFields(const engine::EngineStats& stats) {
  return {{"requests", stats.num_requests},
          {"running", stats.num_running},
          {"waiting", stats.num_waiting},
          {"preemptions", stats.num_preemptions},
          {"steps", stats.num_steps},
          {"prompt_tokens", stats.num_prompt_tokens},
          {"device_tokens", stats.num_device_tokens},
          {"host_tokens", stats.num_host_tokens},
          {"disk_tokens", stats.num_disk_tokens},
          {"shared_tokens", stats.num_shared_tokens},
          {"computed_tokens", stats.num_computed_tokens},
          {"output_tokens", stats.num_output_tokens},
          {"blocks_free", stats.num_blocks_free},
          {"blocks_cached", stats.num_blocks_cached},
          {"blocks_used", stats.num_blocks_used},
          {"blocks_evicted", stats.num_blocks_evicted},
          {"window_blocks_free", stats.num_window_blocks_free},
          {"window_blocks_cached", stats.num_window_blocks_cached},
          {"window_blocks_used", stats.num_window_blocks_used},
          {"window_blocks_evicted", stats.num_window_blocks_evicted},
          {"digest_mismatches", stats.num_digest_mismatches},
          {"write_back_bytes_queued", stats.write_back_bytes_queued},
          {"blocks_written", stats.num_blocks_written},
          {"blocks_write_skipped", stats.num_blocks_write_skipped},
          {"host_blocks", stats.num_host_blocks},
          {"host_blocks_max", stats.num_host_blocks_max},
          {"refused_by_slo", stats.num_refused_by_slo},
          {"single_flight", stats.num_single_flight},
          {"restores_cut", stats.num_restores_cut},
          {"restores_skipped", stats.num_restores_skipped},
          {"prefill_tokens_per_second", stats.prefill_tokens_per_second},
          {"restore_bytes_per_second", stats.restore_bytes_per_second}};
}

std::vector<Field> StoreFields(const store::kv::KvStoreStats& stats) {
  return {{"records", stats.num_records},      {"payload_bytes", stats.payload_bytes},
          {"disk_bytes", stats.disk_bytes},    {"capacity_bytes", stats.capacity_bytes},
          {"writes", stats.num_writes},        {"hits", stats.num_hits},
          {"misses", stats.num_misses},        {"dropped", stats.num_dropped},
          {"evicted", stats.num_evicted},      {"write_errors", stats.num_write_errors},
          {"skipped", stats.num_skipped},      {"unflushed", stats.num_unflushed},
          {"pinned_bytes", stats.pinned_bytes}};
}

std::vector<Field> TurnFields(const store::meta::TurnStats& stats) {
  return {{"turns", stats.num_turns},       {"conversations", stats.num_conversations},
          {"bytes", stats.bytes},           {"capacity_bytes", stats.bytes_max},
          {"appended", stats.num_appended}, {"retired", stats.num_retired},
          {"deleted", stats.num_deleted},   {"damaged", stats.num_damaged}};
}

void WriteFields(const std::vector<Field>& fields, JsonWriter& json) {
  for (const auto& [name, value] : fields) json.Key(name).Unsigned(value);
}

// `bytes_queued` waited for the disk when the store's numbers were taken.
void WriteEngine(const engine::Engine& engine, uint64_t bytes_queued, JsonWriter& json) {
  const engine::EngineInfo& info = engine.info();
  json.BeginObject();
  engine::EngineStats stats = engine.Stats();
  stats.write_back_bytes_queued = std::max(stats.write_back_bytes_queued, bytes_queued);
  WriteFields(EngineFields(stats), json);
  json.Key("backend").String(info.backend.name).Key("target").String(info.backend.target);
  json.Key("threads").Integer(info.backend.num_threads);
  json.Key("architecture").String(info.model.architecture);
  json.Key("context_tokens_max").Integer(info.context_tokens_max);
  json.Key("weight_bytes").Unsigned(info.weight_bytes);
  json.Key("kv_blocks").Unsigned(info.num_kv_blocks);
  json.Key("kv_block_bytes").Unsigned(info.kv_block_bytes);
  json.Key("kv_groups").BeginArray();
  for (const engine::KvGroupInfo& group : info.kv_groups) {
    json.BeginObject().Key("window").Integer(group.window);
    json.Key("layers").Integer(group.num_layers);
    json.Key("blocks").Unsigned(group.num_blocks);
    json.Key("block_bytes").Unsigned(group.block_bytes).EndObject();
  }
  json.EndArray();
  json.EndObject();
}

local::SharedNumbers SharedNumbersOf(const store::shared::SharedBlockStore& shared,
                                     const local::LocalProvider* local) {
  local::SharedNumbers numbers{
      .blocks = shared.Stats(), .client = shared.ClientStats(), .engine = {}};
  if (local != nullptr) numbers.engine = local->engine().Stats().shared;
  return numbers;
}

void WriteBudget(tier::WriteAdmission& admission, JsonWriter& json) {
  const tier::WriteAdmissionStats stats = admission.stats();
  json.BeginObject().Key("bytes_per_day").Unsigned(stats.budget_bytes_per_day);
  json.Key("left_bytes").Integer(stats.left_bytes);
  json.Key("spent_bytes").Unsigned(stats.spent_bytes);
  json.Key("refused_bytes").Unsigned(stats.refused_bytes).EndObject();
}

void WriteOne(std::string_view name, std::string_view type, std::string_view help, uint64_t value,
              metrics::TextWriter& writer) {
  writer.Family(name, type, help);
  writer.Sample(name, {}, value);
}

// Returns null if there is no model for embeddings, or none yet.
const local::embeddings::EmbeddingProvider* EmbeddingsOf(
    const local::embeddings::PublishedProvider* published) {
  return published == nullptr ? nullptr : published->get();
}

}  // namespace

std::string Service::ListModels(const std::function<bool(std::string_view)>& may) const {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  if (local_ready_.load()) {
    // The model is listed under each of its names, its own first: clients offer what is listed.
    for (const std::string& name : local_->names()) {
      if (may(name)) WriteModel(name, local_->created_unix(), json);
    }
  }
  if (const auto* const own = EmbeddingsOf(parts_.embeddings); own != nullptr) {
    for (const std::string& name : own->names()) {
      const bool is_listed = local_ready_.load() && local_->Serves(name);
      if (!is_listed && may(name)) WriteModel(name, own->created_unix(), json);
    }
  }
  json.EndArray().EndObject();
  return out;
}

Result<std::string> Service::GetModel(std::string_view id) const {
  std::string out;
  JsonWriter json(out);
  const auto* const own = EmbeddingsOf(parts_.embeddings);
  if (!ServesLocal(std::string(id)) && own != nullptr && own->Serves(id)) {
    WriteModel(id, own->created_unix(), json);
    return out;
  }
  KVGATE_TRY(const local::LocalProvider* local, Route(std::string(id)));
  // The model is returned under the requested name, because clients compare it with what they sent.
  WriteModel(id, local->created_unix(), json);
  return out;
}

// May wait for the disk.
void Service::RefreshStores() const {
  StoreNumbers numbers;
  if (local_ready_.load()) {
    numbers.write_back_bytes_queued = local_->engine().Stats().write_back_bytes_queued;
  }
  if (parts_.kv != nullptr) numbers.kv = parts_.kv->Stats();
  if (parts_.pins != nullptr) numbers.num_pins = parts_.pins->size();
  if (parts_.turns != nullptr) numbers.turns = parts_.turns->Stats();
  const std::lock_guard lock(numbers_mutex_);
  numbers_ = std::move(numbers);
}

Service::StoreNumbers Service::store_numbers() const {
  const std::lock_guard lock(numbers_mutex_);
  return numbers_;
}

std::string Service::Metrics() const {
  RefreshStores();
  return MetricsAsKnown();
}

std::string Service::Stats(const Caller& caller) const {
  RefreshStores();
  return StatsAsKnown(caller);
}

std::string Service::StatsAsKnown(const Caller& caller) const {
  const StoreNumbers numbers = store_numbers();
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("ready").Bool(ready());
  // The other fields show what other tenants do; null means that this caller may not see them.
  if (!caller.is_admin()) {
    json.Key("store").Null();
    if (parts_.ledger != nullptr) {
      json.Key("ledger");
      parts_.ledger->WriteStats(json, caller.tenant);
      json.Key("models");
      parts_.ledger->WriteModels(json, caller.tenant);
    }
    if (parts_.prompts != nullptr) {
      json.Key("stabilize_would_save");
      parts_.prompts->WriteSavings(json, caller.tenant);
    }
    json.EndObject();
    return out;
  }
  if (parts_.write_config) parts_.write_config(json.Key("config"));
  json.Key("engine");
  if (local_ready_.load()) {
    WriteEngine(local_->engine(), numbers.write_back_bytes_queued, json);
  } else {
    json.Null();
  }
  json.Key("store");
  if (parts_.kv != nullptr) {
    const store::kv::KvStoreStats& stats = numbers.kv;
    json.BeginObject();
    WriteFields(StoreFields(stats), json);
    json.Key("pins").Unsigned(numbers.num_pins);
    json.Key("error").String(stats.error).EndObject();
  } else {
    json.BeginObject().Key("error").String(parts_.no_disk_reason).EndObject();
  }
  if (parts_.shared != nullptr) {
    json.Key("shared");
    local::WriteShared(
        SharedNumbersOf(*parts_.shared, local_ready_.load() ? local_.get() : nullptr), json);
  }
  if (parts_.turns != nullptr) {
    const store::meta::TurnStats& stats = numbers.turns;
    json.Key("turns").BeginObject().Key("enabled").Bool(stats.enabled);
    WriteFields(TurnFields(stats), json);
    json.EndObject();
  }
  if (write_upstreams_) write_upstreams_(json.Key("upstreams"));
  if (parts_.write_admission != nullptr) {
    json.Key("write_budget");
    WriteBudget(*parts_.write_admission, json);
  }
  if (parts_.ledger != nullptr) {
    json.Key("ledger");
    parts_.ledger->WriteStats(json);
    json.Key("models");
    parts_.ledger->WriteModels(json);
  }
  if (parts_.prompts != nullptr) {
    json.Key("stabilize_would_save");
    parts_.prompts->WriteSavings(json);
  }
  json.EndObject();
  return out;
}

Result<ledger::Ledger*> Service::RequireLedger() const {
  if (parts_.ledger != nullptr) return parts_.ledger;
  return MakeError(ErrorCode::kUnavailable, "service", "Requests are not recorded here.");
}

namespace {

Error UnknownParameter(const std::string& name) {
  return MakeError(ErrorCode::kInvalidArgument, "service",
                   fmt::format("unknown parameter '{}'", name.substr(0, 64)), name.substr(0, 64));
}

Result<int64_t> ReadNumber(const std::string& name, std::string_view value) {
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, code] = std::from_chars(value.data(), end, number);
  if (code == std::errc() && at == end && number >= 0) return number;
  return MakeError(ErrorCode::kInvalidArgument, "service",
                   fmt::format("{} must be a number, not '{}'.", name, value.substr(0, 64)), name);
}

}  // namespace

Result<std::string> Service::ListRequests(const Caller& caller, const Query& query) const {
  KVGATE_TRY(ledger::Ledger* const ledger, RequireLedger());
  ledger::Ledger::ListArgs list;
  if (!caller.is_admin()) list.tenant = caller.tenant;
  for (const auto& [name, value] : query) {
    if (name == "before") {
      list.before = value;
    } else if (name == "limit" && value.empty()) {
      continue;
    } else if (name == "limit") {
      KVGATE_TRY(list.limit, ReadNumber(name, value));
    } else {
      KVGATE_TRY(const bool is_known, list.filter.Take(name, value));
      if (!is_known) return UnknownParameter(name);
    }
  }
  return ledger->List(list);
}

Result<std::string> Service::GetRequest(const Caller& caller, std::string_view id) const {
  KVGATE_TRY(ledger::Ledger* const ledger, RequireLedger());
  return caller.is_admin() ? ledger->Get(id) : ledger->Get(id, caller.tenant);
}

namespace {

// `stats` are null without a disk tier.
void CollectStore(const store::kv::KvStoreStats* stats, metrics::TextWriter& writer) {
  WriteOne("kvgate_store_up", "gauge", "1 when the disk tier is open and healthy.",
           stats != nullptr && stats->error.empty() ? 1 : 0, writer);
  if (stats == nullptr) return;
  WriteOne("kvgate_store_records", "gauge", "KV records on disk.", stats->num_records, writer);
  WriteOne("kvgate_store_payload_bytes", "gauge", "Live KV on disk.", stats->payload_bytes, writer);
  WriteOne("kvgate_store_disk_bytes", "gauge", "Files of the store.", stats->disk_bytes, writer);
  WriteOne("kvgate_store_capacity_bytes", "gauge", "Budget of KV on disk.", stats->capacity_bytes,
           writer);
  WriteOne("kvgate_store_pinned_bytes", "gauge", "KV on disk that eviction may not take.",
           stats->pinned_bytes, writer);
  WriteOne("kvgate_store_writes_total", "counter", "KV records written.", stats->num_writes,
           writer);
  writer.Family("kvgate_store_lookups_total", "counter", "Lookups of KV records by result.");
  writer.Sample("kvgate_store_lookups_total", {{"result", "hit"}}, stats->num_hits);
  writer.Sample("kvgate_store_lookups_total", {{"result", "miss"}}, stats->num_misses);
  WriteOne("kvgate_store_dropped_total", "counter", "Records that failed a check.",
           stats->num_dropped, writer);
  WriteOne("kvgate_store_evicted_total", "counter", "Records evicted to stay under the budget.",
           stats->num_evicted, writer);
  WriteOne("kvgate_store_write_errors_total", "counter", "Writes that the disk refused.",
           stats->num_write_errors, writer);
}

void CollectMeta(const store::meta::MetaStoreStats& stats, metrics::TextWriter& writer) {
  WriteOne("kvgate_store_meta_up", "gauge",
           "1 when responses, conversations, pins and the ledger can be kept.",
           stats.error.empty() ? 1 : 0, writer);
  WriteOne("kvgate_store_meta_lost_total", "counter",
           "Rows that had been acknowledged and were not there at the start.", stats.num_lost,
           writer);
  WriteOne("kvgate_store_meta_damaged_log_bytes_total", "counter",
           "Bytes of the log that were skipped because they were damaged.", stats.damaged_log_bytes,
           writer);
  WriteOne("kvgate_store_meta_damaged_reads_total", "counter", "Reads that met a damaged table.",
           stats.num_damaged_reads, writer);
  WriteOne("kvgate_store_meta_write_errors_total", "counter", "Writes that were refused.",
           stats.num_write_errors, writer);
}

void CollectTurns(const store::meta::TurnStats& stats, metrics::TextWriter& writer) {
  WriteOne("kvgate_turns", "gauge", "Conversation turns kept.", stats.num_turns, writer);
  WriteOne("kvgate_turn_conversations", "gauge", "Conversations kept.", stats.num_conversations,
           writer);
  WriteOne("kvgate_turn_bytes", "gauge", "Turns kept, before compression.", stats.bytes, writer);
  WriteOne("kvgate_turn_capacity_bytes", "gauge", "Budget of turns.", stats.bytes_max, writer);
  WriteOne("kvgate_turns_appended_total", "counter", "Turns written.", stats.num_appended, writer);
  WriteOne("kvgate_turns_retired_total", "counter", "Turns dropped by age or bytes.",
           stats.num_retired, writer);
  WriteOne("kvgate_turns_deleted_total", "counter", "Turns deleted or purged.", stats.num_deleted,
           writer);
  WriteOne("kvgate_turns_damaged_total", "counter", "Turns that failed a check.", stats.num_damaged,
           writer);
}

}  // namespace

Service::EngineLoad Service::Load() const {
  EngineLoad load;
  if (local_ready_.load()) {
    const engine::EngineStats stats = local_->engine().Stats();
    load.num_running = stats.num_running;
    load.num_waiting = stats.num_waiting;
    load.tiers = local::EngineTiers(local_->engine().info(), stats);
  }
  if (parts_.kv != nullptr) {
    const store::kv::KvStoreStats stats = store_numbers().kv;
    load.tiers.push_back({.name = "disk",
                          .label = "disk",
                          .used_bytes = stats.payload_bytes,
                          .capacity_bytes = stats.capacity_bytes});
  }
  return load;
}

void Service::Collect(metrics::TextWriter& writer) const {
  WriteOne("kvgate_ready", "gauge", "1 when requests are served.", ready() ? 1 : 0, writer);
  if (local_ready_.load()) {
    const engine::EngineStats stats = local_->engine().Stats();
    local::CollectEngine(stats, writer);
    if (parts_.has_vllm_names) {
      local::CollectVllm({.model_name = local_->id(),
                          .info = local_->engine().info(),
                          .stats = stats,
                          .times = parts_.metrics.answers.local()},
                         writer);
    }
  }
  local::CollectTiers(Load().tiers, writer);
  const StoreNumbers numbers = store_numbers();
  CollectStore(parts_.kv == nullptr ? nullptr : &numbers.kv, writer);
  if (parts_.shared != nullptr)
    local::CollectShared(
        SharedNumbersOf(*parts_.shared, local_ready_.load() ? local_.get() : nullptr), writer);
  if (parts_.meta != nullptr) CollectMeta(parts_.meta->Stats(), writer);
  if (parts_.turns != nullptr) CollectTurns(numbers.turns, writer);
  if (parts_.ledger != nullptr) parts_.ledger->Collect(writer);
}

}  // namespace kvgate::service
