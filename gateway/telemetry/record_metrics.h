// RecordMetrics counts ended requests in the metrics, from their records. Thread-safe, and quick: a
// few additions.
#pragma once

#include "gateway/ledger/request_record.h"
#include "gateway/metrics/gateway_metrics.h"

namespace kvgate::telemetry {

// Counts one record: its tokens by source, state and tier, and, if an upstream answered it, its
// times. Those of a local one have been observed token by token (gateway/local/local_stream).
void CountRecord(const ledger::RequestRecord& record, metrics::GatewayMetrics& metrics);

// True if a model has written an answer: its times tell how fast models are.
bool IsAnswered(const ledger::RequestRecord& record);

}  // namespace kvgate::telemetry
