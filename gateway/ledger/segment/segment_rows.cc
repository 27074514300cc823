#include "gateway/ledger/segment/segment_rows.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "gateway/ledger/segment/segment_format.h"

namespace kvgate::ledger::segment {
namespace {

using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr std::string_view kPrefix = "s/";
constexpr std::string_view kCountKey = "ns";
constexpr int64_t kRetireMax = 1000;  // rows per step

std::string KeyOf(std::string_view id) { return std::string(kPrefix).append(id); }

}  // namespace

void SegmentRows::Restore() {
  const auto count = meta_.Get(MetaTable::kLedger, kCountKey);
  if (!count || !*count) return;
  const std::string& digits = **count;
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), num_stored_);
}

void SegmentRows::Append(std::string_view id, std::string value, std::vector<MetaWrite>& writes) {
  if (rows_max_ == 0) return;
  ++num_added_;
  writes.push_back({.key = KeyOf(id), .value = std::move(value)});
}

void SegmentRows::AppendCount(std::vector<MetaWrite>& writes) const {
  if (num_added_ == 0) return;
  writes.push_back(
      {.key = std::string(kCountKey), .value = std::to_string(num_stored_ + num_added_)});
}

void SegmentRows::Accept() { num_stored_ += std::exchange(num_added_, 0); }

Result<std::vector<MetaWrite>> SegmentRows::TakeOld() {
  std::vector<MetaWrite> writes;
  const int64_t surplus = num_stored_ - rows_max_;
  if (surplus <= rows_max_ / 64) return writes;
  const int64_t wanted = std::min(surplus, kRetireMax);
  KVGATE_TRY_VOID(meta_.ScanFrom(MetaTable::kLedger, {.prefix = kPrefix, .from = retired_},
                                 [&](std::string_view key, std::string_view) {
                                   if (static_cast<int64_t>(writes.size()) == wanted) return false;
                                   writes.push_back(
                                       {.key = std::string(key), .value = std::nullopt});
                                   return true;
                                 }));
  if (writes.empty()) return writes;
  old_ = writes.back().key;
  num_old_ = static_cast<int64_t>(writes.size());
  writes.push_back(
      {.key = std::string(kCountKey), .value = std::to_string(num_stored_ - num_old_)});
  return writes;
}

void SegmentRows::AcceptOld() {
  num_stored_ -= std::exchange(num_old_, 0);
  retired_ = std::move(old_);
}

Result<std::optional<std::vector<RecordSegment>>> SegmentRows::Read(std::string_view id) const {
  KVGATE_TRY(const std::optional<std::string> row, meta_.Get(MetaTable::kLedger, KeyOf(id)));
  return row ? DecodeSegments(*row) : std::nullopt;
}

}  // namespace kvgate::ledger::segment
