// Fuzzes the decoders of stored request records, of their segments and of sums by time: any bytes
// give one or none; a record can be shown, and its own encoding gives the same one again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/ledger/record_format.h"
#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/segment/segment_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvgate::ledger;  // NOLINT: a program of its own
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto segments = segment::DecodeSegments(bytes)) {
    const auto again = segment::DecodeSegments(segment::EncodeSegments(*segments));
    if (!again || again->size() != segments->size()) std::abort();
  }
  if (rollup::Bucket bucket; rollup::DecodeBucket(bytes, bucket)) {
    rollup::Bucket again;
    if (!rollup::DecodeBucket(rollup::EncodeBucket(bucket), again)) std::abort();
  }
  const int64_t time_us = TimeOfRecord(bytes);
  static const auto ring = kvgate::Keyring::Generate();
  const auto record = DecodeRecord(bytes, *ring);
  if (!record) return 0;
  if (record->time_us != time_us) std::abort();
  const std::string encoded = EncodeRecord(*record, *ring);
  const auto again = DecodeRecord(encoded, *ring);
  if (!again || EncodeRecord(*again, *ring).size() != encoded.size() ||
      RecordJson(*again) != RecordJson(*record)) {
    std::abort();
  }
  return 0;
}
