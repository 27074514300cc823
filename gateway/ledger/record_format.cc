#include "gateway/ledger/record_format.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kvgate::ledger {
namespace {

constexpr char kVersion = 2;  // 1 was JSON, which begins with '{'
constexpr size_t kTextBytesMax = 512;
constexpr size_t kEditsMax = 64;

constexpr uint64_t kStream = 1;
constexpr uint64_t kUsageKnown = 2;
constexpr uint64_t kCostKnown = 4;
constexpr uint64_t kReceivedDigest = 8;
constexpr uint64_t kSentDigest = 16;
constexpr uint64_t kSentIsReceived = 32;  // then only one digest follows

// Both directions name a record's members once, in the order of their bytes.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void Unsigned(uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }
  template <typename Integer>
  void Signed(Integer value) {
    const auto wide = static_cast<int64_t>(value);
    Unsigned((static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63));
  }
  void Text(const std::string& text) {
    const size_t size = std::min(text.size(), kTextBytesMax);
    Unsigned(size);
    out_.append(text, 0, size);
  }
  void Digest(const PrefixDigest& digest) {
    out_.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  // Everything that was read was there, and nothing else is.
  bool complete() const { return well_ && bytes_.empty(); }

  uint64_t TakeUnsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    well_ = false;
    return 0;
  }
  void Unsigned(uint64_t& value) { value = TakeUnsigned(); }
  template <typename Integer>
  void Signed(Integer& value) {
    const uint64_t folded = TakeUnsigned();
    value = static_cast<Integer>(static_cast<int64_t>((folded >> 1) ^ (~(folded & 1) + 1)));
  }
  void Text(std::string& text) {
    const uint64_t size = TakeUnsigned();
    if (size > bytes_.size()) {
      well_ = false;
      return;
    }
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  void Digest(PrefixDigest& digest) {
    if (bytes_.size() < digest.bytes.size()) {
      well_ = false;
      return;
    }
    std::memcpy(digest.bytes.data(), bytes_.data(), digest.bytes.size());
    bytes_.remove_prefix(digest.bytes.size());
  }

 private:
  std::string_view bytes_;
  bool well_ = true;
};

// What every record has, but for its time, which stands in front.
template <typename Direction, typename Record>
void Members(Direction& direction, Record& record) {
  direction.Text(record.id);
  direction.Text(record.path);
  direction.Text(record.upstream);
  direction.Text(record.provider);
  direction.Text(record.model);
  direction.Text(record.answered_by);
  direction.Text(record.tenant);
  direction.Text(record.outcome);
  direction.Text(record.error);
  direction.Text(record.upstream_request_id);
  direction.Text(record.usage_unknown);
  direction.Text(record.service_tier);
  direction.Text(record.price_date);
  direction.Signed(record.status);
  direction.Signed(record.num_attempts);
  direction.Signed(record.timings.queue_us);
  direction.Signed(record.timings.first_byte_us);
  direction.Signed(record.timings.ttft_us);
  direction.Signed(record.timings.total_us);
  direction.Unsigned(record.received_bytes);
  direction.Unsigned(record.sent_bytes);
  direction.Unsigned(record.answer_bytes);
}

template <typename Direction, typename Usage>
void UsageMembers(Direction& direction, Usage& usage) {
  direction.Signed(usage.uncached_tokens);
  direction.Signed(usage.cache_read_tokens);
  direction.Signed(usage.cache_write_tokens);
  direction.Signed(usage.cache_write_1h_tokens);
  direction.Signed(usage.output_tokens);
  direction.Signed(usage.reasoning_tokens);
}

uint64_t FlagsOf(const RequestRecord& record) {
  const bool same = record.received_sha256 && record.sent_sha256 &&
                    record.received_sha256->bytes == record.sent_sha256->bytes;
  return (record.stream ? kStream : 0) | (record.usage ? kUsageKnown : 0) |
         (record.cost ? kCostKnown : 0) | (record.received_sha256 ? kReceivedDigest : 0) |
         (record.sent_sha256 && !same ? kSentDigest : 0) | (same ? kSentIsReceived : 0);
}

void WriteReported(const ReportedUsage& reported, Writer& writer) {
  uint64_t present = 0;
  for (size_t i = 0; i < kNumUsageFields; ++i) {
    if (reported.Get(static_cast<UsageField>(i))) present |= uint64_t{1} << i;
  }
  writer.Unsigned(present);
  for (size_t i = 0; i < kNumUsageFields; ++i) {
    if (const auto value = reported.Get(static_cast<UsageField>(i))) writer.Signed(*value);
  }
}

void ReadReported(Reader& reader, ReportedUsage& reported) {
  const uint64_t present = reader.TakeUnsigned();
  for (size_t i = 0; i < kNumUsageFields; ++i) {
    if ((present >> i & 1) == 0) continue;
    int64_t value = 0;
    reader.Signed(value);
    reported.Set(static_cast<UsageField>(i), value);
  }
}

}  // namespace

std::string EncodeRecord(const RequestRecord& record) {
  std::string out;
  out.reserve(384);
  out += kVersion;
  std::array<char, sizeof(record.time_us)> time;
  std::memcpy(time.data(), &record.time_us, time.size());
  out.append(time.data(), time.size());
  Writer writer(out);
  writer.Unsigned(FlagsOf(record));
  writer.Unsigned(static_cast<uint64_t>(record.endpoint));
  writer.Unsigned(static_cast<uint64_t>(record.dialect));
  Members(writer, record);
  WriteReported(record.reported, writer);
  if (record.usage) UsageMembers(writer, *record.usage);
  if (record.cost) {
    writer.Signed(record.cost->nanodollars);
    writer.Signed(record.cost->uncached_nanodollars);
  }
  const uint64_t flags = FlagsOf(record);
  if ((flags & kReceivedDigest) != 0) writer.Digest(*record.received_sha256);
  if ((flags & kSentDigest) != 0) writer.Digest(*record.sent_sha256);
  const size_t num_edits = std::min(record.edits.size(), kEditsMax);
  writer.Unsigned(num_edits);
  for (size_t i = 0; i < num_edits; ++i) writer.Text(record.edits[i]);
  return out;
}

std::optional<RequestRecord> DecodeRecord(std::string_view bytes) {
  RequestRecord record;
  if (bytes.size() < 1 + sizeof(record.time_us) || bytes.front() != kVersion) return std::nullopt;
  record.time_us = TimeOfRecord(bytes);
  Reader reader(bytes.substr(1 + sizeof(record.time_us)));
  const uint64_t flags = reader.TakeUnsigned();
  const uint64_t endpoint = reader.TakeUnsigned();
  const uint64_t dialect = reader.TakeUnsigned();
  if (endpoint > static_cast<uint64_t>(upstream::Endpoint::kOther) ||
      dialect > static_cast<uint64_t>(upstream::Dialect::kAnthropic)) {
    return std::nullopt;
  }
  record.endpoint = static_cast<upstream::Endpoint>(endpoint);
  record.dialect = static_cast<upstream::Dialect>(dialect);
  record.stream = (flags & kStream) != 0;
  Members(reader, record);
  ReadReported(reader, record.reported);
  if ((flags & kUsageKnown) != 0) UsageMembers(reader, record.usage.emplace());
  if ((flags & kCostKnown) != 0) {
    reader.Signed(record.cost.emplace().nanodollars);
    reader.Signed(record.cost->uncached_nanodollars);
  }
  if ((flags & kReceivedDigest) != 0) reader.Digest(record.received_sha256.emplace());
  if ((flags & kSentDigest) != 0) reader.Digest(record.sent_sha256.emplace());
  if ((flags & kSentIsReceived) != 0) record.sent_sha256 = record.received_sha256;
  const uint64_t num_edits = reader.TakeUnsigned();
  if (num_edits > kEditsMax) return std::nullopt;
  record.edits.resize(num_edits);
  for (std::string& edit : record.edits) reader.Text(edit);
  if (!reader.complete()) return std::nullopt;
  return record;
}

int64_t TimeOfRecord(std::string_view bytes) {
  int64_t time_us = 0;
  if (bytes.size() > sizeof(time_us) && bytes.front() == kVersion) {
    std::memcpy(&time_us, bytes.data() + 1, sizeof(time_us));
  }
  return time_us;
}

}  // namespace kvgate::ledger
