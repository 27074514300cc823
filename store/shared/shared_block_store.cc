#include "store/shared/shared_block_store.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "store/shared/shared_block_format.h"

namespace kvgate::store::shared {
namespace {

// Names of one look-up that are asked for in one go.
constexpr size_t kNamesMax = 4096;
// Values that are sent in one go, unless one alone is larger.
constexpr size_t kWriteBytesMax = size_t{8} << 20;

constexpr std::string_view kSource = "store.shared";

SharedBlock BlockOf(const kv::KvRecord& record) {
  return {.fingerprint = record.key.fingerprint,
          .digest = record.digest,
          .group = record.group,
          .shape_tag = record.shape_tag};
}

}  // namespace

SharedBlockStore::SharedBlockStore(const Options& options, remote::RespClient& client,
                                   const Keyring& ring)
    : options_(options),
      time_to_live_(options.time_to_live.count() > 0 ? std::to_string(options.time_to_live.count())
                                                     : std::string()),
      client_(client),
      ring_(ring),
      known_(options.known_max) {}

bool SharedBlockStore::Contains(const kv::KvKey& key) const {
  if (client_.is_paused()) return false;
  const std::lock_guard lock(mutex_);
  const SteadyClock::time_point* const until = known_.Peek(key);
  return until != nullptr && SteadyClock::now() < *until;
}

void SharedBlockStore::Remember(const kv::KvKey& key) {
  const std::lock_guard lock(mutex_);
  known_.FindOrAdd(key) = SteadyClock::now() + options_.remembered;
}

void SharedBlockStore::Forget(const kv::KvKey& key) {
  const std::lock_guard lock(mutex_);
  if (SteadyClock::time_point* const until = known_.Find(key)) *until = {};
}

// With a time to live, the question renews it.
Result<std::vector<bool>> SharedBlockStore::FindPresent(std::span<const std::string> keys,
                                                        SteadyClock::time_point deadline) {
  std::vector<remote::RespCommand> commands;
  commands.reserve(keys.size());
  for (const std::string& key : keys) {
    remote::RespCommand& command = commands.emplace_back();
    command.key = key;
    command.words = {"EXISTS", key};
    if (!time_to_live_.empty()) command.words = {"EXPIRE", key, time_to_live_};
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies, client_.Call(commands, deadline));
  std::vector<bool> present;
  present.reserve(replies.size());
  for (const remote::RespReply& reply : replies) {
    present.push_back(reply.is_integer() && reply.integer > 0);
  }
  return present;
}

Result<void> SharedBlockStore::LookUp(std::span<const kv::KvName> names,
                                      SteadyClock::time_point deadline) {
  while (!names.empty()) {
    const auto part = names.first(std::min(names.size(), kNamesMax));
    std::vector<std::string> keys;
    keys.reserve(part.size());
    for (const kv::KvName& name : part) {
      keys.push_back(SharedBlockKey(name.key.fingerprint, name.digest, name.group));
    }
    KVGATE_TRY(const std::vector<bool> present, FindPresent(keys, deadline));
    uint64_t num_found = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      if (!present[i]) continue;
      Remember(part[i].key);
      ++num_found;
    }
    {
      const std::lock_guard lock(mutex_);
      stats_.num_looked_up += part.size();
      stats_.num_found += num_found;
    }
    names = names.subspan(part.size());
  }
  return {};
}

// --- writing ------------------------------------------------------------------------------------

Result<void> SharedBlockStore::Put(std::span<const kv::KvRecord> records) {
  if (records.empty()) return {};
  std::vector<std::string> keys;
  for (const kv::KvRecord& record : records) {
    keys.push_back(SharedBlockKey(record.key.fingerprint, record.digest, record.group));
  }
  KVGATE_TRY(const std::vector<bool> present,
             FindPresent(keys, SteadyClock::now() + options_.call_time_max));
  std::vector<kv::KvRecord> wanted;
  std::vector<std::string> wanted_keys;
  for (size_t i = 0; i < records.size(); ++i) {
    if (present[i]) {
      Remember(records[i].key);
    } else {
      wanted.push_back(records[i]);
      wanted_keys.push_back(std::move(keys[i]));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    stats_.num_present += records.size() - wanted.size();
  }
  for (size_t begin = 0; begin < wanted.size();) {
    size_t end = begin;
    size_t bytes = 0;
    do {
      bytes += wanted[end++].payload.size();
    } while (end < wanted.size() && bytes + wanted[end].payload.size() <= kWriteBytesMax);
    KVGATE_TRY_VOID(PutSome(std::span(wanted).subspan(begin, end - begin),
                            std::span(wanted_keys).subspan(begin, end - begin)));
    begin = end;
  }
  return {};
}

Result<void> SharedBlockStore::PutSome(std::span<const kv::KvRecord> records,
                                       std::span<const std::string> keys) {
  std::vector<std::string> values;
  std::vector<remote::RespCommand> commands;
  values.reserve(records.size());
  commands.reserve(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    values.push_back(SealSharedBlock(ring_, keys[i], BlockOf(records[i]), records[i].payload));
    remote::RespCommand& command = commands.emplace_back(
        remote::RespCommand{.words = {"SET", keys[i], values[i]}, .key = keys[i]});
    if (!time_to_live_.empty()) command.words.insert(command.words.end(), {"EX", time_to_live_});
  }
  const Result<std::vector<remote::RespReply>> replies =
      client_.Call(commands, SteadyClock::now() + options_.call_time_max);
  if (!replies) {
    const std::lock_guard lock(mutex_);
    stats_.num_write_errors += records.size();
    return replies.error();
  }
  std::string refusal;
  for (size_t i = 0; i < records.size(); ++i) {
    const remote::RespReply& reply = (*replies)[i];
    if (reply.is_error()) {
      refusal = reply.text;
    } else {
      Remember(records[i].key);
    }
    const std::lock_guard lock(mutex_);
    ++(reply.is_error() ? stats_.num_write_errors : stats_.num_writes);
    if (!reply.is_error()) stats_.written_bytes += records[i].payload.size();
  }
  if (refusal.empty()) return {};
  return MakeError(ErrorCode::kOverloaded, kSource,
                   fmt::format("the shared store does not take KV blocks: {}", refusal));
}

// --- reading ------------------------------------------------------------------------------------

Result<void> SharedBlockStore::Get(const kv::KvLookup& lookup) {
  const std::string key = SharedBlockKey(lookup.key.fingerprint, lookup.digest, lookup.group);
  std::vector<remote::RespCommand> commands;
  commands.push_back({.words = {"GET", key}, .key = key});
  if (!time_to_live_.empty()) {
    commands.push_back({.words = {"EXPIRE", key, time_to_live_}, .key = key});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies,
             client_.Call(commands, SteadyClock::now() + options_.call_time_max));
  const remote::RespReply& reply = replies.front();
  if (!reply.is_text()) {
    Forget(lookup.key);
    const std::lock_guard lock(mutex_);
    ++stats_.num_misses;
    return MakeError(ErrorCode::kNotFound, kSource,
                     reply.is_error() ? reply.text : "the block is not there");
  }
  const Result<void> opened = OpenSharedBlock(ring_, key, reply.text,
                                              {.fingerprint = lookup.key.fingerprint,
                                               .digest = lookup.digest,
                                               .group = lookup.group,
                                               .shape_tag = lookup.shape_tag},
                                              lookup.payload);
  if (!opened) return Drop(lookup, key, opened.error());
  const std::lock_guard lock(mutex_);
  ++stats_.num_reads;
  stats_.read_bytes += lookup.payload.size();
  return {};
}

// What failed a check goes, so that a good one can take its place. A block that another secret
// sealed, or a newer kvgate wrote, may be good for others and stays.
Error SharedBlockStore::Drop(const kv::KvLookup& lookup, const std::string& key,
                             const Error& cause) {
  Forget(lookup.key);
  const bool is_damaged = cause.code == ErrorCode::kDataLoss;
  if (is_damaged) {
    const remote::RespCommand command{.words = {"DEL", key}, .key = key};
    (void)client_.Call({&command, 1}, SteadyClock::now() + options_.call_time_max);
    KVGATE_LOG(kWarning, kSource, "a shared KV block failed its check and was deleted: {}",
               cause.detail);
  }
  const std::lock_guard lock(mutex_);
  ++(is_damaged ? stats_.num_dropped : stats_.num_misses);
  return cause;
}

SharedBlockStats SharedBlockStore::Stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace kvgate::store::shared
