// SharedTier: the store that a configuration shares with other gateways (store.shared): the client,
// the KV blocks in it with the budget of writing them, the logs of sessions and which there are,
// their memories, the rows of what conversations have sent, the feeds of what prompts begin with,
// the sums of what was used, and pins.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/seal.h"
#include "engine/tier/write_admission.h"
#include "gateway/config/config.h"
#include "store/remote/resp_client.h"
#include "store/shared/shared_block_store.h"
#include "store/shared/shared_feed.h"
#include "store/shared/shared_logs.h"
#include "store/shared/shared_map.h"
#include "store/shared/shared_rows.h"
#include "store/shared/shared_sums.h"

namespace kvgate::runtime {

class SharedTier {
 public:
  // Connects nowhere yet; a server that does not answer keeps nothing from starting. Returns null
  // if the configuration names no store. The keyring, which may be null, outlives it; without one
  // the secrets are those of store.secret_env. Fails with kInvalidArgument, naming the key, if a
  // value cannot be used or there is no secret.
  static Result<std::unique_ptr<SharedTier>> Open(const config::Config& config,
                                                  const Keyring* keyring);

  store::shared::SharedBlockStore& blocks() { return *blocks_; }
  store::shared::SharedLogs& logs() { return *logs_; }
  store::shared::SharedMap& memories() { return *memories_; }
  store::shared::SharedMap& pins() { return *pins_; }
  // Which sessions there are.
  store::shared::SharedMap& sessions() { return *sessions_; }
  // What prompts begin with, and what was learnt of their lines.
  store::shared::SharedFeed& prompts() { return *prompts_; }
  store::shared::SharedFeed& templates() { return *templates_; }
  // What gateways have used of budgets and limits.
  store::shared::SharedSums& sums() { return *sums_; }
  // What the requests of conversations have sent.
  store::shared::SharedRows& conversations() { return *conversations_; }
  const std::shared_ptr<tier::WriteAdmission>& write_admission() const { return admission_; }

 private:
  SharedTier() = default;

  std::unique_ptr<Keyring> own_keyring_;  // null if the data directory has one
  std::unique_ptr<store::remote::RespClient> client_;
  std::unique_ptr<store::shared::SharedBlockStore> blocks_;
  std::unique_ptr<store::shared::SharedLogs> logs_;
  std::unique_ptr<store::shared::SharedMap> memories_;
  std::unique_ptr<store::shared::SharedMap> pins_;      // listed
  std::unique_ptr<store::shared::SharedMap> sessions_;  // listed
  std::unique_ptr<store::shared::SharedFeed> prompts_;
  std::unique_ptr<store::shared::SharedFeed> templates_;
  std::unique_ptr<store::shared::SharedSums> sums_;
  std::unique_ptr<store::shared::SharedRows> conversations_;
  std::shared_ptr<tier::WriteAdmission> admission_;
};

// Asks the configuration's shared store who it is and says so, with what is to be changed there.
// Waits at most a second. Errors as for Open, and as RespClient::Call.
Result<std::string> DescribeSharedStore(const config::StoreConfig& config);

// Returns the error of a store.shared that no environment makes right: its URL.
Result<void> CheckShared(const config::StoreConfig& config);

// Returns what the client of the configuration's shared store is given. Errors as for Open.
Result<store::remote::RespOptions> ToRespOptions(const config::StoreConfig& config);

}  // namespace kvgate::runtime
