#include "store/kv/kv_format.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/digest.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::kv {

using file::AppendBigEndian;
using file::AsBytes;
using file::LoadValue;
using file::StoreValue;

namespace {

static_assert(std::endian::native == std::endian::little, "the format is written by memcpy");

constexpr uint32_t kMagic = 0x5247564b;  // "KVGR"

// Offsets in the record header. The checksum covers everything behind it.
constexpr size_t kChecksumAt = 0;
constexpr size_t kMagicAt = 16;
constexpr size_t kVersionAt = 20;
constexpr size_t kHeaderSizeAt = 22;
constexpr size_t kFingerprintAt = 24;
constexpr size_t kHashAt = 40;
constexpr size_t kParentAt = 56;
constexpr size_t kDigestAt = 72;
constexpr size_t kDepthAt = 104;
constexpr size_t kGroupAt = 108;
constexpr size_t kShapeTagAt = 112;
constexpr size_t kNumTokensAt = 116;
constexpr size_t kPayloadSizeAt = 120;

// Offsets in the index entry.
constexpr size_t kIndexChecksumAt = 0;
constexpr size_t kIndexVersionAt = 8;
constexpr size_t kIndexReservedAt = 10;
constexpr size_t kIndexGroupAt = 12;
constexpr size_t kIndexParentAt = 16;
constexpr size_t kIndexDigestAt = 32;
constexpr size_t kIndexDepthAt = 64;
constexpr size_t kIndexShapeTagAt = 68;
constexpr size_t kIndexPayloadSizeAt = 72;
constexpr size_t kIndexLastUsedAt = 80;

template <typename Tag>
void StoreHash(char* bytes, size_t at, const Hash128<Tag>& hash) {
  StoreValue(bytes, at, hash.low);
  StoreValue(bytes, at + 8, hash.high);
}

template <typename Hash>
Hash LoadHash(std::string_view bytes, size_t at) {
  return Hash{LoadValue<uint64_t>(bytes, at), LoadValue<uint64_t>(bytes, at + 8)};
}

Error Damaged(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, "store.kv", std::move(detail));
}

// The index checksum also covers the key, so a value stored under a wrong key is detected.
uint64_t IndexChecksum(std::string_view key, std::string_view value) {
  const uint64_t seed = Xxh3(AsBytes(key)).first;
  return Xxh3(AsBytes(value.substr(kIndexVersionAt)), seed).first;
}

// Compares every header field, except the payload's, with the index entry.
Result<void> ProveHeader(std::string_view bytes, const KvIndexEntry& expected) {
  const KvKey key{LoadHash<Fingerprint>(bytes, kFingerprintAt),
                  LoadHash<BlockHash>(bytes, kHashAt)};
  if (key != expected.key) return Damaged("record: it was written under another key");
  if (LoadValue<PrefixDigest>(bytes, kDigestAt) != expected.digest) {
    return Damaged("record: its prefix digest is not the index's");
  }
  if (LoadHash<BlockHash>(bytes, kParentAt) != expected.parent ||
      LoadValue<uint32_t>(bytes, kDepthAt) != expected.depth) {
    return Damaged("record: its parent or depth is not the index's");
  }
  if (LoadValue<uint32_t>(bytes, kGroupAt) != expected.group ||
      LoadValue<uint32_t>(bytes, kShapeTagAt) != expected.shape_tag) {
    return Damaged("record: its group or shape is not the index's");
  }
  return {};
}

}  // namespace

std::string EncodeKvKey(const KvKey& key) {
  std::string out;
  out.reserve(kKvKeyBytes);
  AppendBigEndian(out, key.fingerprint.high);
  AppendBigEndian(out, key.fingerprint.low);
  AppendBigEndian(out, key.hash.high);
  AppendBigEndian(out, key.hash.low);
  return out;
}

Result<KvKey> DecodeKvKey(std::string_view bytes) {
  if (bytes.size() != kKvKeyBytes) {
    return Damaged(fmt::format("key of {} bytes, not {}", bytes.size(), kKvKeyBytes));
  }
  file::ByteReader reader(bytes);
  KvKey key;
  key.fingerprint.high = reader.TakeBigEndian();
  key.fingerprint.low = reader.TakeBigEndian();
  key.hash.high = reader.TakeBigEndian();
  key.hash.low = reader.TakeBigEndian();
  return key;
}

void EncodeKvRecord(const KvRecord& record, std::string& out) {
  out.resize(kKvHeaderBytes + record.tokens.size_bytes() + record.payload.size());
  char* bytes = out.data();
  StoreValue(bytes, kMagicAt, kMagic);
  StoreValue(bytes, kVersionAt, kKvRecordVersion);
  StoreValue(bytes, kHeaderSizeAt, static_cast<uint16_t>(kKvHeaderBytes));
  StoreHash(bytes, kFingerprintAt, record.key.fingerprint);
  StoreHash(bytes, kHashAt, record.key.hash);
  StoreHash(bytes, kParentAt, record.parent);
  StoreValue(bytes, kDigestAt, record.digest);
  StoreValue(bytes, kDepthAt, record.depth);
  StoreValue(bytes, kGroupAt, record.group);
  StoreValue(bytes, kShapeTagAt, record.shape_tag);
  StoreValue(bytes, kNumTokensAt, static_cast<uint32_t>(record.tokens.size()));
  StoreValue(bytes, kPayloadSizeAt, static_cast<uint64_t>(record.payload.size()));
  char* at = bytes + kKvHeaderBytes;
  if (!record.tokens.empty()) {
    std::memcpy(at, record.tokens.data(), record.tokens.size_bytes());
    at += record.tokens.size_bytes();
  }
  if (!record.payload.empty()) std::memcpy(at, record.payload.data(), record.payload.size());
  const auto [low, high] = Xxh3(AsBytes(out).subspan(kMagicAt));
  StoreValue(bytes, kChecksumAt, low);
  StoreValue(bytes, kChecksumAt + 8, high);
}

Result<ProvedRecord> ProveKvRecord(std::string_view bytes, const KvIndexEntry& expected) {
  if (bytes.size() < kKvHeaderBytes) {
    return Damaged(fmt::format("record of {} bytes, shorter than its header", bytes.size()));
  }
  if (LoadValue<uint32_t>(bytes, kMagicAt) != kMagic) return Damaged("record: wrong magic");
  const auto version = LoadValue<uint16_t>(bytes, kVersionAt);
  if (version != kKvRecordVersion || LoadValue<uint16_t>(bytes, kHeaderSizeAt) != kKvHeaderBytes) {
    return Damaged(fmt::format("record of version {}, not {}", version, kKvRecordVersion));
  }
  const auto payload_bytes = LoadValue<uint64_t>(bytes, kPayloadSizeAt);
  const size_t token_bytes = LoadValue<uint32_t>(bytes, kNumTokensAt) * sizeof(TokenId);
  const size_t stored_bytes = bytes.size() - kKvHeaderBytes;
  if (token_bytes > stored_bytes || payload_bytes != stored_bytes - token_bytes ||
      payload_bytes != expected.payload_bytes) {
    return Damaged(
        fmt::format("record: payload of {} bytes behind {} of token ids, {} stored, {} "
                    "expected",
                    payload_bytes, token_bytes, stored_bytes, expected.payload_bytes));
  }
  KVGATE_TRY_VOID(ProveHeader(bytes, expected));
  const auto [low, high] = Xxh3(AsBytes(bytes).subspan(kMagicAt));
  if (low != LoadValue<uint64_t>(bytes, kChecksumAt) ||
      high != LoadValue<uint64_t>(bytes, kChecksumAt + 8)) {
    return Damaged("record: its checksum does not match");
  }
  const auto body = AsBytes(bytes).subspan(kKvHeaderBytes);
  return ProvedRecord{.token_bytes = body.first(token_bytes), .payload = body.subspan(token_bytes)};
}

std::vector<TokenId> DecodeTokens(std::span<const std::byte> token_bytes) {
  std::vector<TokenId> tokens(token_bytes.size() / sizeof(TokenId));
  if (!tokens.empty()) std::memcpy(tokens.data(), token_bytes.data(), token_bytes.size());
  return tokens;
}

std::string EncodeKvIndexEntry(const KvIndexEntry& entry) {
  std::string out(kKvIndexBytes, '\0');
  char* bytes = out.data();
  StoreValue(bytes, kIndexVersionAt, kKvIndexVersion);
  StoreValue(bytes, kIndexReservedAt, uint16_t{0});
  StoreValue(bytes, kIndexGroupAt, entry.group);
  StoreHash(bytes, kIndexParentAt, entry.parent);
  StoreValue(bytes, kIndexDigestAt, entry.digest);
  StoreValue(bytes, kIndexDepthAt, entry.depth);
  StoreValue(bytes, kIndexShapeTagAt, entry.shape_tag);
  StoreValue(bytes, kIndexPayloadSizeAt, entry.payload_bytes);
  StoreValue(bytes, kIndexLastUsedAt, entry.last_used_us);
  StoreValue(bytes, kIndexChecksumAt, IndexChecksum(EncodeKvKey(entry.key), out));
  return out;
}

Result<KvIndexEntry> DecodeKvIndexEntry(std::string_view key, std::string_view value) {
  KVGATE_TRY(const KvKey kv_key, DecodeKvKey(key));
  if (value.size() != kKvIndexBytes) {
    return Damaged(fmt::format("index entry of {} bytes, not {}", value.size(), kKvIndexBytes));
  }
  if (LoadValue<uint64_t>(value, kIndexChecksumAt) != IndexChecksum(key, value)) {
    return Damaged("index entry: its checksum does not match");
  }
  const auto version = LoadValue<uint16_t>(value, kIndexVersionAt);
  if (version != kKvIndexVersion) {
    return Damaged(fmt::format("index entry of version {}, not {}", version, kKvIndexVersion));
  }
  return KvIndexEntry{.key = kv_key,
                      .parent = LoadHash<BlockHash>(value, kIndexParentAt),
                      .depth = LoadValue<uint32_t>(value, kIndexDepthAt),
                      .digest = LoadValue<PrefixDigest>(value, kIndexDigestAt),
                      .group = LoadValue<uint32_t>(value, kIndexGroupAt),
                      .shape_tag = LoadValue<uint32_t>(value, kIndexShapeTagAt),
                      .payload_bytes = LoadValue<uint64_t>(value, kIndexPayloadSizeAt),
                      .last_used_us = LoadValue<int64_t>(value, kIndexLastUsedAt)};
}

}  // namespace kvgate::store::kv
