#include "gateway/ledger/segment/segment_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "gateway/ledger/segment/segment_format.h"
#include "store/file/byte_codec.h"

namespace kvgate::ledger::segment {
namespace {

using store::file::AppendVarint;
using store::file::AppendVarText;
using store::file::TakeVarint;
using store::file::TakeVarText;
using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr std::string_view kPrefix = "g/";
constexpr std::string_view kOlderPrefix = "s/";  // a row for each record, named by its id
constexpr std::string_view kOlderMark = "ns";    // present while there are such rows
constexpr char kVersion = 1;
constexpr size_t kRowBytes = 64 << 10;  // a row that has so many takes no more segments
constexpr size_t kDropMax = 1000;       // rows per step

std::string KeyOf(uint64_t first) { return fmt::format("{}{:016x}", kPrefix, first); }

std::optional<uint64_t> FirstOf(std::string_view key) {
  const std::string_view digits = key.substr(kPrefix.size());
  uint64_t first = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), first, 16);
  const bool is_number = code == std::errc() && end == digits.data() + digits.size();
  return is_number && first > 0 ? std::optional(first) : std::nullopt;
}

// Takes the head of a row; nullopt if the bytes are none.
std::optional<uint64_t> TakeCount(std::string_view& row) {
  if (row.empty() || row.front() != kVersion) return std::nullopt;
  row.remove_prefix(1);
  return TakeVarint(row);
}

// Returns the segments of the record with this id if it has this index; else nullopt. After damage
// to the store a number may have been given a second time, to another record.
std::optional<std::string_view> PartOf(std::string_view row, uint64_t index, std::string_view id) {
  const std::optional<uint64_t> count = TakeCount(row);
  if (!count || index >= *count) return std::nullopt;
  while (true) {
    const auto name = TakeVarText(row);
    const auto segments = name ? TakeVarText(row) : std::nullopt;
    if (!segments) return std::nullopt;
    if (index-- == 0) return *name == id ? segments : std::nullopt;
  }
}

}  // namespace

Result<void> SegmentRows::Restore() {
  KVGATE_TRY(const auto mark, meta_.Get(MetaTable::kLedger, kOlderMark));
  has_older_ = mark.has_value();
  return meta_.Scan(MetaTable::kLedger, kPrefix,
                    [this](std::string_view key, std::string_view row) {
                      const std::optional<uint64_t> first = FirstOf(key);
                      if (!first) return true;
                      firsts_.push_back(*first);
                      next_ = *first + std::max<uint64_t>(TakeCount(row).value_or(1), 1);
                      return true;
                    });
}

void SegmentRows::Begin() {
  added_.clear();
  num_dropped_ = 0;
  drops_mark_ = false;
}

uint64_t SegmentRows::Add(std::string_view id, std::string_view segments) {
  const uint64_t number = added_.empty() ? next_ : added_.back().first + added_.back().count;
  if (added_.empty() || added_.back().parts.size() >= kRowBytes)
    added_.push_back({.first = number});
  Row& row = added_.back();
  ++row.count;
  AppendVarText(row.parts, id);
  AppendVarText(row.parts, segments);
  return number;
}

void SegmentRows::AppendTo(std::vector<MetaWrite>& writes) {
  if (added_.empty()) return;
  for (const Row& row : added_) {
    std::string value(1, kVersion);
    AppendVarint(value, row.count);
    value += row.parts;
    writes.push_back({.key = KeyOf(row.first), .value = std::move(value)});
  }
  const uint64_t end = added_.back().first + added_.back().count;
  while (num_dropped_ < kDropMax && num_dropped_ < firsts_.size()) {
    const bool is_last = num_dropped_ + 1 == firsts_.size();
    const uint64_t end_of_row = is_last ? next_ : firsts_[num_dropped_ + 1];
    if (end_of_row + segments_max_ > end) break;
    writes.push_back({.key = KeyOf(firsts_[num_dropped_++]), .value = std::nullopt});
  }
  const uint64_t begin = firsts_.empty() ? next_ : firsts_.front();
  if (has_older_ && end - begin >= segments_max_) AppendOlder(writes);
}

// The rows of an older version go, some with each step, once there are enough newer ones.
void SegmentRows::AppendOlder(std::vector<MetaWrite>& writes) {
  size_t count = 0;
  const auto scanned = meta_.ScanFrom(MetaTable::kLedger, {.prefix = kOlderPrefix, .from = older_},
                                      [&](std::string_view key, std::string_view) {
                                        older_ = key;
                                        writes.push_back({.key = older_, .value = std::nullopt});
                                        return ++count < kDropMax;
                                      });
  drops_mark_ = scanned && count < kDropMax;
  if (drops_mark_) writes.push_back({.key = std::string(kOlderMark), .value = std::nullopt});
}

void SegmentRows::Accept() {
  firsts_.erase(firsts_.begin(), firsts_.begin() + static_cast<std::ptrdiff_t>(num_dropped_));
  for (const Row& row : added_) firsts_.push_back(row.first);
  if (!added_.empty()) next_ = added_.back().first + added_.back().count;
  if (drops_mark_) has_older_ = false;
  Begin();
}

Result<std::optional<std::vector<RecordSegment>>> SegmentRows::Read(const ReadArgs& args) const {
  if (args.number == 0) {
    KVGATE_TRY(const std::optional<std::string> row,
               meta_.Get(MetaTable::kLedger, std::string(kOlderPrefix).append(args.id)));
    return row ? DecodeSegments(*row) : std::nullopt;
  }
  std::optional<std::vector<RecordSegment>> segments;
  KVGATE_TRY_VOID(meta_.ScanBack(
      MetaTable::kLedger, {.prefix = kPrefix, .before = KeyOf(args.number + 1)},
      [&](std::string_view key, std::string_view row) {
        const std::optional<uint64_t> first = FirstOf(key);
        const auto part = first ? PartOf(row, args.number - *first, args.id) : std::nullopt;
        if (part) segments = DecodeSegments(*part);
        return false;
      }));
  return segments;
}

}  // namespace kvgate::ledger::segment
