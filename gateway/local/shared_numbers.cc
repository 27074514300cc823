#include "gateway/local/shared_numbers.h"

#include <cstdint>
#include <string_view>

namespace kvgate::local {
namespace {

bool IsReachable(const SharedNumbers& numbers) {
  return !numbers.client.is_paused && numbers.client.error.empty();
}

}  // namespace

void WriteShared(const SharedNumbers& numbers, dialect::form::JsonWriter& json) {
  const store::shared::SharedBlockStats& blocks = numbers.blocks;
  json.BeginObject().Key("reachable").Bool(IsReachable(numbers));
  json.Key("endpoint").String(numbers.client.endpoint);
  json.Key("server").String(numbers.client.server);
  json.Key("error").String(numbers.client.error);
  json.Key("calls").Unsigned(numbers.client.num_calls);
  json.Key("failed_calls").Unsigned(numbers.client.num_failed);
  json.Key("looked_up").Unsigned(blocks.num_looked_up).Key("found").Unsigned(blocks.num_found);
  json.Key("reads").Unsigned(blocks.num_reads).Key("read_bytes").Unsigned(blocks.read_bytes);
  json.Key("misses").Unsigned(blocks.num_misses).Key("dropped").Unsigned(blocks.num_dropped);
  json.Key("writes").Unsigned(blocks.num_writes);
  json.Key("written_bytes").Unsigned(blocks.written_bytes);
  json.Key("present").Unsigned(blocks.num_present);
  json.Key("write_errors").Unsigned(blocks.num_write_errors);
  json.Key("write_bytes_queued").Unsigned(numbers.engine.write_bytes_queued);
  json.Key("blocks_write_skipped").Unsigned(numbers.engine.num_blocks_write_skipped);
  json.Key("restore_bytes_per_second").Unsigned(numbers.engine.restore_bytes_per_second);
  json.EndObject();
}

void CollectShared(const SharedNumbers& numbers, metrics::TextWriter& writer) {
  const store::shared::SharedBlockStats& blocks = numbers.blocks;
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       uint64_t value) {
    writer.Family(name, type, help);
    writer.Sample(name, {}, value);
  };
  one("kvgate_shared_up", "gauge", "1 when the shared store answered the last call.",
      IsReachable(numbers) ? 1 : 0);
  constexpr std::string_view kCalls = "kvgate_shared_calls_total";
  writer.Family(kCalls, "counter", "Calls of the shared store by result.");
  writer.Sample(kCalls, {{"result", "ok"}}, numbers.client.num_calls - numbers.client.num_failed);
  writer.Sample(kCalls, {{"result", "failed"}}, numbers.client.num_failed);
  constexpr std::string_view kLookUps = "kvgate_shared_lookups_total";
  writer.Family(kLookUps, "counter", "KV blocks that the shared store was asked for, by result.");
  writer.Sample(kLookUps, {{"result", "hit"}}, blocks.num_found);
  writer.Sample(kLookUps, {{"result", "miss"}}, blocks.num_looked_up - blocks.num_found);
  one("kvgate_shared_blocks_read_total", "counter", "KV blocks read from the shared store.",
      blocks.num_reads);
  one("kvgate_shared_read_bytes_total", "counter", "KV read from the shared store.",
      blocks.read_bytes);
  one("kvgate_shared_dropped_total", "counter",
      "Values of the shared store that failed a check and were deleted.", blocks.num_dropped);
  one("kvgate_shared_blocks_written_total", "counter", "KV blocks written to the shared store.",
      blocks.num_writes);
  one("kvgate_shared_written_bytes_total", "counter", "KV written to the shared store.",
      blocks.written_bytes);
  one("kvgate_shared_blocks_present_total", "counter",
      "KV blocks that another gateway had written before.", blocks.num_present);
  one("kvgate_shared_write_errors_total", "counter",
      "KV blocks that the shared store did not take.", blocks.num_write_errors);
  one("kvgate_shared_write_queued_bytes", "gauge", "KV that waits for the shared store.",
      numbers.engine.write_bytes_queued);
  one("kvgate_shared_restore_bytes_per_second", "gauge",
      "Speed of loads from the shared store, measured.", numbers.engine.restore_bytes_per_second);
}

}  // namespace kvgate::local
