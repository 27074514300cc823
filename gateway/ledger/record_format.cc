#include "gateway/ledger/record_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::ledger {
namespace {

constexpr char kVersion = 10;
// Version 9 knew of no shared store. Version 8 had no named prompts. Version 7 had no number of
// segments behind it. Version 6 had no direct cost. Version 5 had neither session, key, tiers nor
// the times of decoding. Version 4 knew of no held lines. Version 3 had a break's excerpts in
// clear; version 2 had edits without counts and nothing behind them. Version 1 was JSON, which
// begins with
// '{'.
constexpr char kClearVersion = 3;
constexpr char kDirectVersion = 7;  // the first one with the direct cost
constexpr char kNumberedVersion = 8;
constexpr char kSharedVersion = 10;  // the first one whose tiers have the shared store
constexpr char kOldestVersion = 2;
constexpr std::string_view kPurpose = "ledger";
// Bound of a break's sealed excerpts.
constexpr size_t kWordsBytesMax =
    2 * (kRecordTextBytesMax + sizeof(uint32_t)) + Keyring::kOverheadBytes;

constexpr uint64_t kStream = 1;
constexpr uint64_t kUsageKnown = 2;
constexpr uint64_t kCostKnown = 4;
constexpr uint64_t kReceivedDigest = 8;
constexpr uint64_t kSentDigest = 16;
constexpr uint64_t kSentIsReceived = 32;  // only one digest is stored
constexpr uint64_t kPrepared = 64;
constexpr uint64_t kPlanned = 128;
constexpr uint64_t kBreakKnown = 256;
constexpr uint64_t kAttributed = 512;
constexpr uint64_t kReasonGiven = 1024;
constexpr uint64_t kHeldStale = 2048;
constexpr uint64_t kNamed = 4096;    // its key, session, prompt or asked_model
constexpr uint64_t kSpanned = 8192;  // the times of prefill and decode
constexpr uint64_t kTiered = 16384;  // tokens by tier
constexpr uint64_t kEstimated = 32768;
constexpr uint64_t kPrompted = 65536;  // its named prompt

constexpr size_t kSegmentsNumberBytes = sizeof(uint64_t);

bool IsVersion(char version) { return version >= kOldestVersion && version <= kVersion; }

// Writer and Reader have the same interface, so that each list of members is written once for both.
// Most records fit into the fixed buffer and become a string only when they are complete.
class Writer {
 public:
  void Unsigned(uint64_t value) {
    char* at = Room(kNumberBytesMax);
    while (value >= 0x80) {
      *at++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<char>(value);
    size_ = static_cast<size_t>(at - here_.data());
  }
  template <typename Integer>
  void Signed(Integer value) {
    const auto wide = static_cast<int64_t>(value);
    Unsigned((static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63));
  }
  void Text(const std::string& text, size_t bytes_max = kRecordTextBytesMax) {
    const size_t size = std::min(text.size(), bytes_max);
    Unsigned(size);
    Bytes(text.data(), size);
  }
  void Name(const std::string& name) { Text(name, kRecordNameBytesMax); }
  void Real(double value) { Bytes(&value, sizeof(value)); }
  void Digest(const PrefixDigest& digest) { Bytes(digest.bytes.data(), digest.bytes.size()); }
  // REQUIRES: size <= kWordsBytesMax, so that the bytes fit into the buffer.
  void Bytes(const void* bytes, size_t size) {
    std::memcpy(Room(size), bytes, size);
    size_ += size;
  }
  std::string Take() { return out_.append(here_.data(), size_); }

 private:
  static constexpr size_t kNumberBytesMax = 10;
  char* Room(size_t bytes) {
    if (size_ + bytes > here_.size()) {
      out_.append(here_.data(), size_);
      size_ = 0;
    }
    return here_.data() + size_;
  }

  std::string out_;
  std::array<char, 2048> here_;
  size_t size_ = 0;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  // Returns true if every read succeeded and no bytes are left.
  bool complete() const { return well_ && bytes_.empty(); }

  uint64_t TakeUnsigned() {
    const std::optional<uint64_t> value = store::file::TakeVarint(bytes_);
    if (!value) well_ = false;
    return value.value_or(0);
  }
  void Unsigned(uint64_t& value) { value = TakeUnsigned(); }
  template <typename Integer>
  void Signed(Integer& value) {
    const uint64_t folded = TakeUnsigned();
    const auto wide = static_cast<int64_t>((folded >> 1) ^ (~(folded & 1) + 1));
    if (wide > segment::kStoredNumberMax || wide < -segment::kStoredNumberMax ||
        !std::in_range<Integer>(wide)) {
      well_ = false;
      return;
    }
    value = static_cast<Integer>(wide);
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
  void Name(std::string& name) { Text(name); }
  void Real(double& value) {
    if (bytes_.size() < sizeof(value)) {
      well_ = false;
      return;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
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

// The members of every record; the time is not among them, because it stands in front.
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

template <typename Direction, typename Record>
void PreparationMembers(Direction& direction, Record& record) {
  direction.Name(record.mode);
  direction.Name(record.conversation);
  direction.Name(record.conversation_origin);
}

template <typename Direction, typename Plan>
void PlanMembers(Direction& direction, Plan& plan) {
  direction.Text(plan.reason);
  direction.Real(plan.expected_reuse);
  direction.Signed(plan.num_breakpoints);
}

template <typename Direction, typename Break>
void BreakMembers(Direction& direction, Break& found) {
  direction.Name(found.cause);
  direction.Text(found.path);
  direction.Name(found.volatile_kind);
}

template <typename Direction, typename Break>
void LossMembers(Direction& direction, Break& found) {
  direction.Text(found.verdict);
  direction.Signed(found.reusable_tokens);
  direction.Signed(found.lost_tokens);
  direction.Signed(found.lost_nanodollars);
}

template <typename Direction, typename Hold>
void HoldMembers(Direction& direction, Hold& hold) {
  direction.Signed(hold.num_lines);
  direction.Signed(hold.seconds);
}

template <typename Direction, typename Tokens>
void SourceMembers(Direction& direction, Tokens& tokens) {
  direction.Name(tokens.source);
  direction.Signed(tokens.cached);
  direction.Signed(tokens.written);
  direction.Signed(tokens.uncached);
  direction.Signed(tokens.nanodollars);
}

template <typename Direction, typename Record>
void NameMembers(Direction& direction, Record& record) {
  direction.Text(record.key);
  direction.Text(record.session);
  direction.Name(record.prompt);
  direction.Text(record.asked_model);
}

template <typename Direction, typename Record>
void PromptMembers(Direction& direction, Record& record) {
  direction.Name(record.prompt_name);
  direction.Name(record.prompt_version);
}

template <typename Direction, typename Timings>
void SpanMembers(Direction& direction, Timings& timings) {
  direction.Signed(timings.prefill_us);
  direction.Signed(timings.decode_us);
  direction.Signed(timings.tpot_us);
  direction.Signed(timings.itl_us_max);
}

template <typename Direction, typename Tiers>
void TierMembers(Direction& direction, Tiers& tiers) {
  direction.Signed(tiers.device);
  direction.Signed(tiers.host);
  direction.Signed(tiers.disk);
  direction.Signed(tiers.computed);
}

// The flags of what came with version 6 and later.
uint64_t NewFlagsOf(const RequestRecord& record) {
  const RequestTimings& timings = record.timings;
  const bool is_named = !(record.key.empty() && record.session.empty() && record.prompt.empty() &&
                          record.asked_model.empty());
  const bool is_spanned = timings.prefill_us >= 0 || timings.decode_us >= 0 ||
                          timings.tpot_us >= 0 || timings.itl_us_max >= 0;
  return (is_named ? kNamed : 0) | (is_spanned ? kSpanned : 0) | (record.tiers ? kTiered : 0) |
         (record.is_estimated ? kEstimated : 0) | (record.prompt_name.empty() ? 0 : kPrompted);
}

uint64_t FlagsOf(const RequestRecord& record) {
  const bool same = record.received_sha256 && record.sent_sha256 &&
                    record.received_sha256->bytes == record.sent_sha256->bytes;
  return NewFlagsOf(record) | (record.stream ? kStream : 0) | (record.usage ? kUsageKnown : 0) |
         (record.cost ? kCostKnown : 0) | (record.received_sha256 ? kReceivedDigest : 0) |
         (record.sent_sha256 && !same ? kSentDigest : 0) | (same ? kSentIsReceived : 0) |
         (!record.mode.empty() || !record.conversation.empty() ? kPrepared : 0) |
         (record.plan ? kPlanned : 0) | (record.prefix_break ? kBreakKnown : 0) |
         (record.attribution.empty() ? 0 : kAttributed) |
         (record.provider_reason.empty() ? 0 : kReasonGiven) | (record.held_stale ? kHeldStale : 0);
}

Keyring::Place WordsPlace(const RequestRecord& record) {
  return {.purpose = kPurpose, .name = std::string_view(record.id).substr(0, kRecordTextBytesMax)};
}

// Returns the sealed excerpts around a break; empty if there are none.
std::string SealWords(const RequestRecord& record, const Keyring& ring) {
  const RecordBreak& found = *record.prefix_break;
  if (found.before.empty() && found.after.empty()) return {};
  std::string words;
  for (const std::string* text : {&found.before, &found.after}) {
    store::file::AppendText(words, std::string_view(*text).substr(0, kRecordTextBytesMax));
  }
  return ring.Seal(WordsPlace(record), words);
}

// Returns false if the bytes are damaged. A different secret is no damage; the excerpts stay empty
// then.
bool OpenWords(const std::string& sealed, const Keyring& ring, RequestRecord& record) {
  if (sealed.empty()) return true;
  const Result<std::string> words = ring.Open(WordsPlace(record), sealed);
  if (!words) return words.error().code == ErrorCode::kPermissionDenied;
  store::file::ByteReader reader(*words);
  record.prefix_break->before = reader.TakeText();
  record.prefix_break->after = reader.TakeText();
  return reader.at_end();
}

// Writes the edits, the preparation and its results.
void WriteTail(const RequestRecord& record, uint64_t flags, const Keyring& ring, Writer& writer) {
  const size_t num_edits = std::min(record.edits.size(), kRecordEditsMax);
  writer.Unsigned(num_edits);
  for (size_t i = 0; i < num_edits; ++i) {
    writer.Name(record.edits[i].rule);
    writer.Signed(record.edits[i].count);
  }
  if ((flags & kPrepared) != 0) PreparationMembers(writer, record);
  if (record.plan) PlanMembers(writer, *record.plan);
  if (record.prefix_break) {
    BreakMembers(writer, *record.prefix_break);
    writer.Text(SealWords(record, ring), kWordsBytesMax);
    LossMembers(writer, *record.prefix_break);
  }
  if ((flags & kAttributed) != 0) {
    const size_t num_sources = std::min(record.attribution.size(), kRecordSourcesMax);
    writer.Unsigned(num_sources);
    for (size_t i = 0; i < num_sources; ++i) SourceMembers(writer, record.attribution[i]);
  }
  if ((flags & kReasonGiven) != 0) writer.Text(record.provider_reason);
  if (record.held_stale) HoldMembers(writer, *record.held_stale);
  if ((flags & kNamed) != 0) NameMembers(writer, record);
  if ((flags & kSpanned) != 0) SpanMembers(writer, record.timings);
  if (record.tiers) {
    TierMembers(writer, *record.tiers);
    writer.Signed(record.tiers->shared);
  }
  if ((flags & kPrompted) != 0) PromptMembers(writer, record);
}

bool ReadBreak(Reader& reader, char version, const Keyring& ring, RequestRecord& record) {
  RecordBreak& found = record.prefix_break.emplace();
  BreakMembers(reader, found);
  if (version <= kClearVersion) {
    reader.Text(found.before);
    reader.Text(found.after);
  } else {
    std::string sealed;
    reader.Text(sealed);
    if (!OpenWords(sealed, ring, record)) return false;
  }
  LossMembers(reader, found);
  return true;
}

// Returns false if the bytes are no record.
bool ReadTail(Reader& reader, char version, uint64_t flags, const Keyring& ring,
              RequestRecord& record) {
  const uint64_t num_edits = reader.TakeUnsigned();
  if (num_edits > kRecordEditsMax) return false;
  record.edits.resize(num_edits);
  for (RecordEdit& edit : record.edits) {
    reader.Name(edit.rule);
    if (version > kOldestVersion) reader.Signed(edit.count);
  }
  if (version == kOldestVersion) return true;
  if ((flags & kPrepared) != 0) PreparationMembers(reader, record);
  if ((flags & kPlanned) != 0) PlanMembers(reader, record.plan.emplace());
  if ((flags & kBreakKnown) != 0 && !ReadBreak(reader, version, ring, record)) return false;
  if ((flags & kAttributed) != 0) {
    const uint64_t num_sources = reader.TakeUnsigned();
    if (num_sources > kRecordSourcesMax) return false;
    record.attribution.resize(num_sources);
    for (SourceTokens& tokens : record.attribution) SourceMembers(reader, tokens);
  }
  if ((flags & kReasonGiven) != 0) reader.Text(record.provider_reason);
  if ((flags & kHeldStale) != 0) HoldMembers(reader, record.held_stale.emplace());
  if ((flags & kNamed) != 0) NameMembers(reader, record);
  if ((flags & kSpanned) != 0) SpanMembers(reader, record.timings);
  if ((flags & kTiered) != 0) {
    TierMembers(reader, record.tiers.emplace());
    if (version >= kSharedVersion) reader.Signed(record.tiers->shared);
  }
  if ((flags & kPrompted) != 0) PromptMembers(reader, record);
  record.is_estimated = (flags & kEstimated) != 0;
  return true;
}

void WriteReported(const reply::ReportedUsage& reported, Writer& writer) {
  uint64_t present = 0;
  for (size_t i = 0; i < reply::kNumUsageFields; ++i) {
    if (reported.Get(static_cast<reply::UsageField>(i))) present |= uint64_t{1} << i;
  }
  writer.Unsigned(present);
  for (size_t i = 0; i < reply::kNumUsageFields; ++i) {
    if (const auto value = reported.Get(static_cast<reply::UsageField>(i))) writer.Signed(*value);
  }
}

void ReadReported(Reader& reader, reply::ReportedUsage& reported) {
  const uint64_t present = reader.TakeUnsigned();
  for (size_t i = 0; i < reply::kNumUsageFields; ++i) {
    if ((present >> i & 1) == 0) continue;
    int64_t value = 0;
    reader.Signed(value);
    reported.Set(static_cast<reply::UsageField>(i), value);
  }
}

}  // namespace

std::string EncodeRecord(const RequestRecord& record, const Keyring& ring) {
  Writer writer;
  writer.Bytes(&kVersion, 1);
  writer.Bytes(&record.time_us, sizeof(record.time_us));
  writer.Unsigned(FlagsOf(record));
  writer.Unsigned(static_cast<uint64_t>(record.endpoint));
  writer.Unsigned(static_cast<uint64_t>(record.dialect));
  Members(writer, record);
  WriteReported(record.reported, writer);
  if (record.usage) UsageMembers(writer, *record.usage);
  if (record.cost) {
    writer.Signed(record.cost->nanodollars);
    writer.Signed(record.cost->uncached_nanodollars);
    writer.Signed(record.cost->direct_nanodollars);
  }
  const uint64_t flags = FlagsOf(record);
  if ((flags & kReceivedDigest) != 0) writer.Digest(*record.received_sha256);
  if ((flags & kSentDigest) != 0) writer.Digest(*record.sent_sha256);
  WriteTail(record, flags, ring, writer);
  constexpr uint64_t kNoSegments = 0;
  writer.Bytes(&kNoSegments, kSegmentsNumberBytes);
  return writer.Take();
}

std::optional<RequestRecord> DecodeRecord(std::string_view bytes, const Keyring& ring) {
  RequestRecord record;
  if (bytes.size() < 1 + sizeof(record.time_us) || !IsVersion(bytes.front())) return std::nullopt;
  record.time_us = TimeOfRecord(bytes);
  std::string_view members = bytes.substr(1 + sizeof(record.time_us));
  if (bytes.front() >= kNumberedVersion) {
    if (members.size() < kSegmentsNumberBytes) return std::nullopt;
    members.remove_suffix(kSegmentsNumberBytes);
  }
  Reader reader(members);
  const uint64_t flags = reader.TakeUnsigned();
  const uint64_t endpoint = reader.TakeUnsigned();
  const uint64_t dialect = reader.TakeUnsigned();
  if (endpoint > static_cast<uint64_t>(dialect::form::Endpoint::kCountContent) ||
      dialect > static_cast<uint64_t>(dialect::form::Api::kGemini)) {
    return std::nullopt;
  }
  record.endpoint = static_cast<dialect::form::Endpoint>(endpoint);
  record.dialect = static_cast<dialect::form::Api>(dialect);
  record.stream = (flags & kStream) != 0;
  Members(reader, record);
  ReadReported(reader, record.reported);
  if ((flags & kUsageKnown) != 0) UsageMembers(reader, record.usage.emplace());
  if ((flags & kCostKnown) != 0) {
    reader.Signed(record.cost.emplace().nanodollars);
    reader.Signed(record.cost->uncached_nanodollars);
    record.cost->direct_nanodollars = record.cost->nanodollars;
    if (bytes.front() >= kDirectVersion) reader.Signed(record.cost->direct_nanodollars);
  }
  if ((flags & kReceivedDigest) != 0) reader.Digest(record.received_sha256.emplace());
  if ((flags & kSentDigest) != 0) reader.Digest(record.sent_sha256.emplace());
  if ((flags & kSentIsReceived) != 0) record.sent_sha256 = record.received_sha256;
  if (!ReadTail(reader, bytes.front(), flags, ring, record) || !reader.complete()) {
    return std::nullopt;
  }
  return record;
}

bool HasClearWords(std::string_view bytes) {
  return !bytes.empty() && IsVersion(bytes.front()) && bytes.front() <= kClearVersion;
}

void SetSegmentsNumber(std::string& bytes, uint64_t number) {
  store::file::StoreValue(bytes.data(), bytes.size() - kSegmentsNumberBytes, number);
}

uint64_t SegmentsNumberOf(std::string_view bytes) {
  const bool is_numbered = bytes.size() > kSegmentsNumberBytes && IsVersion(bytes.front()) &&
                           bytes.front() >= kNumberedVersion;
  if (!is_numbered) return 0;
  return store::file::LoadValue<uint64_t>(bytes, bytes.size() - kSegmentsNumberBytes);
}

int64_t TimeOfRecord(std::string_view bytes) {
  int64_t time_us = 0;
  if (bytes.size() > sizeof(time_us) && IsVersion(bytes.front())) {
    std::memcpy(&time_us, bytes.data() + 1, sizeof(time_us));
  }
  return time_us;
}

}  // namespace kvgate::ledger
