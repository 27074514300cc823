// Fuzzes the reader of usage: any bytes, in any pieces and in each content coding, give the same
// counts within their bounds; every JSON object is read to its end.
#include "gateway/ledger/reply/usage_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace {

using namespace kvgate::ledger::reply;  // NOLINT: a program of its own

std::unique_ptr<UsageReader> Read(std::string_view text, const UsageReader::Body& body,
                                  size_t piece_bytes) {
  auto reader = std::make_unique<UsageReader>(body);
  while (!text.empty()) {
    reader->Feed(text.substr(0, piece_bytes));
    text.remove_prefix(std::min(piece_bytes, text.size()));
  }
  return reader;
}

void CheckSame(const UsageReader& a, const UsageReader& b) {
  for (size_t i = 0; i < kNumUsageFields; ++i) {
    const auto field = static_cast<UsageField>(i);
    if (a.facts().usage.Get(field) != b.facts().usage.Get(field)) std::abort();
  }
  if (a.facts().model.view() != b.facts().model.view()) std::abort();
  if (a.facts().error != b.facts().error || a.usage() != b.usage()) std::abort();
}

void CheckBounds(const UsageReader& reader) {
  const auto usage = reader.usage();
  if (!usage) return;
  for (const int64_t count :
       {usage->uncached_tokens, usage->cache_read_tokens, usage->cache_write_tokens,
        usage->cache_write_1h_tokens, usage->output_tokens, usage->reasoning_tokens}) {
    if (count < 0 || count > 2'000'000'000) std::abort();
  }
}

// If a strict parser accepts the text as an object, the scanner must have seen its end.
void CheckObject(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(text.data(), text.size()).get(object) != simdjson::SUCCESS) return;
  // simdjson skips a byte order mark; answers have none.
  if (text.starts_with("\xef\xbb\xbf")) return;
  ReplyScanner scanner;
  scanner.Reset();
  scanner.Feed(text);
  if (!scanner.complete()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  static constexpr std::string_view kCodings[] = {"", "", "", "", "gzip", "zstd", "br", "deflate"};
  const UsageReader::Body body{
      .endpoint = static_cast<kvgate::dialect::form::Endpoint>(data[0] % 8),
      .content_type = (data[0] & 0x80) != 0 ? "text/event-stream" : "application/json",
      .content_encoding = kCodings[data[0] / 8 % 8]};
  const auto whole = Read(text, body, text.size() + 1);
  const auto pieces = Read(text, body, 1 + data[1] % 16);
  // The number of bytes decompressed from a bomb depends on how much of it has arrived.
  if (body.content_encoding.empty()) CheckSame(*whole, *pieces);
  CheckBounds(*whole);
  CheckObject(text);
  return 0;
}
