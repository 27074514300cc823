#include "gateway/ledger/rollup/batch.h"

#include <algorithm>
#include <optional>

#include "store/file/byte_codec.h"

namespace kvgate::ledger::rollup {
namespace {

using store::file::AppendVarint;
using store::file::AppendVarText;
using store::file::TakeVarint;
using store::file::TakeVarText;

constexpr char kVersion = 1;
constexpr uint64_t kMinuteMax = 0xffff'ffff;  // eight hex digits in the keys of rows

bool TakeName(std::string_view& bytes, Batch::Names& names) {
  const std::optional<uint64_t> by = TakeVarint(bytes);
  if (!by || *by >= kNumBys) return false;
  const auto name = TakeVarText(bytes);
  const auto sum = name ? TakeVarText(bytes) : std::nullopt;
  Bucket bucket;
  if (!sum || !DecodeBucket(*sum, bucket)) return false;
  names[{static_cast<By>(*by), std::string(*name)}].Merge(bucket);
  return true;
}

bool TakeSums(std::string_view& bytes, Batch::Key& key, Batch::Names& names) {
  const auto tenant = TakeVarText(bytes);
  const auto minute = tenant ? TakeVarint(bytes) : std::nullopt;
  const auto count = minute ? TakeVarint(bytes) : std::nullopt;
  if (!count || *minute > kMinuteMax) return false;
  key = {.tenant = std::string(*tenant), .minute = static_cast<int64_t>(*minute)};
  for (uint64_t i = 0; i < *count; ++i) {
    if (!TakeName(bytes, names)) return false;
  }
  return true;
}

}  // namespace

void Batch::Add(const Entry& entry) {
  Names& names =
      sums_[{.tenant = entry.tenant, .minute = std::max<int64_t>(entry.time_us / kMinuteUs, 0)}];
  names[{By::kTotal, ""}].Merge(entry.whole);
  for (const Name& name : entry.names) names[name].Merge(entry.whole);
  for (const Entry::Part& part : entry.parts) names[{part.by, part.name}].Merge(part.bucket);
}

void Batch::Merge(const Batch& other) {
  for (const auto& [key, names] : other.sums_) {
    Names& own = sums_[key];
    for (const auto& [name, bucket] : names) own[name].Merge(bucket);
  }
}

void Batch::Clear() { sums_.clear(); }

std::string Batch::Encode() const {
  std::string out(1, kVersion);
  AppendVarint(out, sums_.size());
  for (const auto& [key, names] : sums_) {
    AppendVarText(out, key.tenant);
    AppendVarint(out, static_cast<uint64_t>(key.minute));
    AppendVarint(out, names.size());
    for (const auto& [name, bucket] : names) {
      AppendVarint(out, static_cast<uint64_t>(name.first));
      AppendVarText(out, name.second);
      AppendVarText(out, EncodeBucket(bucket));
    }
  }
  return out;
}

bool Batch::AddEncoded(std::string_view bytes) {
  if (bytes.empty() || bytes.front() != kVersion) return false;
  bytes.remove_prefix(1);
  const std::optional<uint64_t> count = TakeVarint(bytes);
  if (!count) return false;
  Batch read;
  for (uint64_t i = 0; i < *count; ++i) {
    Key key;
    Names names;
    if (!TakeSums(bytes, key, names)) return false;
    read.sums_[std::move(key)] = std::move(names);
  }
  if (!bytes.empty()) return false;
  Merge(read);
  return true;
}

}  // namespace kvgate::ledger::rollup
