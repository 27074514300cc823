// SharedNumbers: what a gateway did with the store that gateways share, as JSON and as metrics.
#pragma once

#include "engine/engine.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/metrics/registry.h"
#include "store/remote/resp_client.h"
#include "store/shared/shared_block_store.h"

namespace kvgate::local {

struct SharedNumbers {
  store::shared::SharedBlockStats blocks;
  store::remote::RespStats client;
  engine::SharedTierStats engine;  // zeros without a local model
};

// An object: reachable, endpoint, server, error; what was looked up, read and written.
void WriteShared(const SharedNumbers& numbers, dialect::form::JsonWriter& json);
// Families named kvgate_shared_*.
void CollectShared(const SharedNumbers& numbers, metrics::TextWriter& writer);

}  // namespace kvgate::local
