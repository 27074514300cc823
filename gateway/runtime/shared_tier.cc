#include "gateway/runtime/shared_tier.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "store/file/secret_file.h"

namespace kvgate::runtime {
namespace {

// The burst holds the KV of a long request.
constexpr uint64_t kBurstBytes = uint64_t{4} << 30;
// A row of prompts is a tool or a system prompt; one of templates, all of a tenant and model.
constexpr size_t kPromptRowsMax = 2'048;
constexpr size_t kTemplateRowsMax = 256;

Error Refuse(std::string detail, std::string field) {
  return MakeError(ErrorCode::kInvalidArgument, "config", std::move(detail), std::move(field));
}

}  // namespace

Result<store::remote::RespOptions> ToRespOptions(const config::StoreConfig& config) {
  store::remote::RespOptions options;
  options.ca_file = config.shared_ca_file;
  KVGATE_TRY(options.address, store::remote::ParseRespUrl(config.shared, "store.shared"));
  if (config.shared_password_env.empty()) return options;
  const char* const password = std::getenv(config.shared_password_env.c_str());
  if (password == nullptr || *password == '\0') {
    return Refuse(fmt::format("store.shared_password_env: the environment variable {} is not set",
                              config.shared_password_env),
                  "store.shared_password_env");
  }
  options.password = password;
  return options;
}

Result<void> CheckShared(const config::StoreConfig& config) {
  if (config.shared.empty()) return {};
  const auto address = store::remote::ParseRespUrl(config.shared, "store.shared");
  return address ? Result<void>() : address.error();
}

Result<std::string> DescribeSharedStore(const config::StoreConfig& config) {
  KVGATE_TRY(store::remote::RespOptions options, ToRespOptions(config));
  KVGATE_TRY(const auto client, store::remote::RespClient::Make(std::move(options)));
  const auto deadline = SteadyClock::now() + std::chrono::seconds(1);
  KVGATE_TRY(const store::remote::RespReply first, client->CallOne({.words = {"PING"}}, deadline));
  if (first.is_error()) {
    return MakeError(ErrorCode::kPermissionDenied, "store.shared",
                     fmt::format("{} refuses: {}", client->Stats().endpoint, first.text));
  }
  const auto began = SteadyClock::now();
  KVGATE_TRY(const store::remote::RespReply policy,
             client->CallOne({.words = {"CONFIG", "GET", "maxmemory-policy"}}, deadline));
  const std::chrono::duration<double, std::milli> took = SteadyClock::now() - began;
  const store::remote::RespStats stats = client->Stats();
  std::string said =
      fmt::format("{} ({}) answers in {:.1f} ms", stats.endpoint, stats.server, took.count());
  // Not every server shows it, nor to every user.
  if (policy.items.size() < 2 || policy.items[1].text.starts_with("volatile-")) return said;
  return said + fmt::format(
                    "; its maxmemory-policy is {}: with a maxmemory, volatile-lru would make "
                    "room where this refuses or drops what matters",
                    policy.items[1].text);
}

Result<std::unique_ptr<SharedTier>> SharedTier::Open(const config::Config& config,
                                                     const Keyring* keyring) {
  if (config.store.shared.empty()) return nullptr;
  std::unique_ptr<SharedTier> tier(new SharedTier);
  KVGATE_TRY(store::remote::RespOptions options, ToRespOptions(config.store));
  const bool has_secret = !config.store.secret_env.empty();
  if (keyring == nullptr) {
    if (!has_secret) {
      return Refuse(
          "store.shared needs store.secret_env where nothing is kept on disk: what "
          "gateways share is sealed with a secret that all of them have",
          "store.secret_env");
    }
    KVGATE_TRY(tier->own_keyring_,
               store::file::OpenKeyring(
                   {.directory = {}, .environment = config.store.secret_env, .make = false}));
    keyring = tier->own_keyring_.get();
  } else if (!has_secret) {
    KVGATE_LOG(
        kWarning, "runtime",
        "store.shared is set and store.secret_env is not: what this gateway shares is sealed "
        "with {}, and only gateways with the same secret find it",
        keyring->source());
  }
  KVGATE_TRY(tier->client_, store::remote::RespClient::Make(std::move(options)));
  tier->blocks_ = std::make_unique<store::shared::SharedBlockStore>(
      store::shared::SharedBlockStore::Options{
          .time_to_live = std::chrono::seconds(config.store.shared_ttl_seconds)},
      *tier->client_, *keyring);
  tier->logs_ = std::make_unique<store::shared::SharedLogs>(
      store::shared::SharedLogs::Options{
          .time_to_live = std::chrono::seconds(config.store.turns_retention_seconds)},
      *tier->client_, *keyring);
  tier->memories_ = std::make_unique<store::shared::SharedMap>(
      store::shared::SharedMap::Options{
          .kind = "memory",
          .time_to_live = std::chrono::seconds(config.store.turns_retention_seconds)},
      *tier->client_, *keyring);
  tier->sessions_ = std::make_unique<store::shared::SharedMap>(
      store::shared::SharedMap::Options{
          .kind = "sessions",
          .time_to_live = std::chrono::seconds(config.store.turns_retention_seconds),
          .is_listed = true},
      *tier->client_, *keyring);
  tier->pins_ = std::make_unique<store::shared::SharedMap>(
      store::shared::SharedMap::Options{.kind = "pins", .is_listed = true}, *tier->client_,
      *keyring);
  const auto open_feed = [&](std::string name, size_t rows_max) {
    store::shared::SharedFeed::Options feed{.name = std::move(name), .rows_max = rows_max};
    feed.time_to_live = std::chrono::seconds(config.store.prompts_retention_seconds);
    return std::make_unique<store::shared::SharedFeed>(feed, *tier->client_, *keyring);
  };
  tier->prompts_ = open_feed("prompts", kPromptRowsMax);
  tier->templates_ = open_feed("templates", kTemplateRowsMax);
  tier->sums_ = std::make_unique<store::shared::SharedSums>(*tier->client_, *keyring);
  tier->conversations_ = std::make_unique<store::shared::SharedRows>(
      store::shared::SharedRows::Options{
          .time_to_live = std::chrono::seconds(config.store.prompts_retention_seconds)},
      *tier->client_, *keyring);
  tier->admission_ = std::make_shared<tier::WriteAdmission>(tier::WriteAdmission::Options{
      .bytes_per_day = config.store.shared_write_budget_bytes, .burst_bytes_min = kBurstBytes});
  return tier;
}

}  // namespace kvgate::runtime
