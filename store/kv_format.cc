#include "store/kv_format.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include <kvgate/digest.h>

namespace kvgate::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is written by memcpy");

constexpr uint32_t kMagic = 0x5247564b;  // "KVGR"

// Offsets of the record header; the checksum covers everything behind itself.
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

// Offsets of the index entry.
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

template <typename T>
void Store(char* bytes, size_t at, const T& value) {
  std::memcpy(bytes + at, &value, sizeof(value));
}

template <typename T>
T Load(const char* bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof(value));
  return value;
}

template <typename Tag>
void StoreHash(char* bytes, size_t at, const Hash128<Tag>& hash) {
  Store(bytes, at, hash.low);
  Store(bytes, at + 8, hash.high);
}

template <typename Hash>
Hash LoadHash(const char* bytes, size_t at) {
  return Hash{Load<uint64_t>(bytes, at), Load<uint64_t>(bytes, at + 8)};
}

void AppendBigEndian(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

uint64_t LoadBigEndian(std::string_view bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Error Damaged(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, "store.kv", std::move(detail));
}

// The index checksum covers the key too: a value that strayed under another key is found out.
uint64_t IndexChecksum(std::string_view key, std::string_view value) {
  const uint64_t seed = Xxh3(AsBytes(key)).first;
  return Xxh3(AsBytes(value.substr(kIndexVersionAt)), seed).first;
}

// Every field but the payload against what the index holds.
Result<void> ProveHeader(const char* bytes, const KvIndexEntry& expected) {
  const KvKey key{LoadHash<Fingerprint>(bytes, kFingerprintAt),
                  LoadHash<BlockHash>(bytes, kHashAt)};
  if (key != expected.key) return Damaged("record: it was written under another key");
  if (Load<PrefixDigest>(bytes, kDigestAt) != expected.digest) {
    return Damaged("record: its prefix digest is not the index's");
  }
  if (LoadHash<BlockHash>(bytes, kParentAt) != expected.parent ||
      Load<uint32_t>(bytes, kDepthAt) != expected.depth) {
    return Damaged("record: its parent or depth is not the index's");
  }
  if (Load<uint32_t>(bytes, kGroupAt) != expected.group ||
      Load<uint32_t>(bytes, kShapeTagAt) != expected.shape_tag) {
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
  return KvKey{Fingerprint{LoadBigEndian(bytes, 8), LoadBigEndian(bytes, 0)},
               BlockHash{LoadBigEndian(bytes, 24), LoadBigEndian(bytes, 16)}};
}

void EncodeKvRecord(const KvRecord& record, std::string& out) {
  out.resize(kKvHeaderBytes + record.tokens.size_bytes() + record.payload.size());
  char* bytes = out.data();
  Store(bytes, kMagicAt, kMagic);
  Store(bytes, kVersionAt, kKvRecordVersion);
  Store(bytes, kHeaderSizeAt, static_cast<uint16_t>(kKvHeaderBytes));
  StoreHash(bytes, kFingerprintAt, record.key.fingerprint);
  StoreHash(bytes, kHashAt, record.key.hash);
  StoreHash(bytes, kParentAt, record.parent);
  Store(bytes, kDigestAt, record.digest);
  Store(bytes, kDepthAt, record.depth);
  Store(bytes, kGroupAt, record.group);
  Store(bytes, kShapeTagAt, record.shape_tag);
  Store(bytes, kNumTokensAt, static_cast<uint32_t>(record.tokens.size()));
  Store(bytes, kPayloadSizeAt, static_cast<uint64_t>(record.payload.size()));
  char* at = bytes + kKvHeaderBytes;
  if (!record.tokens.empty()) {
    std::memcpy(at, record.tokens.data(), record.tokens.size_bytes());
    at += record.tokens.size_bytes();
  }
  if (!record.payload.empty()) std::memcpy(at, record.payload.data(), record.payload.size());
  const auto [low, high] = Xxh3(AsBytes(out).subspan(kMagicAt));
  Store(bytes, kChecksumAt, low);
  Store(bytes, kChecksumAt + 8, high);
}

Result<ProvedRecord> ProveKvRecord(std::string_view bytes, const KvIndexEntry& expected) {
  if (bytes.size() < kKvHeaderBytes) {
    return Damaged(fmt::format("record of {} bytes, shorter than its header", bytes.size()));
  }
  if (Load<uint32_t>(bytes.data(), kMagicAt) != kMagic) return Damaged("record: wrong magic");
  const auto version = Load<uint16_t>(bytes.data(), kVersionAt);
  if (version != kKvRecordVersion ||
      Load<uint16_t>(bytes.data(), kHeaderSizeAt) != kKvHeaderBytes) {
    return Damaged(fmt::format("record of version {}, not {}", version, kKvRecordVersion));
  }
  const auto payload_bytes = Load<uint64_t>(bytes.data(), kPayloadSizeAt);
  const size_t token_bytes = Load<uint32_t>(bytes.data(), kNumTokensAt) * sizeof(TokenId);
  const size_t stored_bytes = bytes.size() - kKvHeaderBytes;
  if (token_bytes > stored_bytes || payload_bytes != stored_bytes - token_bytes ||
      payload_bytes != expected.payload_bytes) {
    return Damaged(
        fmt::format("record: payload of {} bytes behind {} of token ids, {} stored, {} "
                    "expected",
                    payload_bytes, token_bytes, stored_bytes, expected.payload_bytes));
  }
  KVGATE_TRY_VOID(ProveHeader(bytes.data(), expected));
  const auto [low, high] = Xxh3(AsBytes(bytes).subspan(kMagicAt));
  if (low != Load<uint64_t>(bytes.data(), kChecksumAt) ||
      high != Load<uint64_t>(bytes.data(), kChecksumAt + 8)) {
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
  Store(bytes, kIndexVersionAt, kKvIndexVersion);
  Store(bytes, kIndexReservedAt, uint16_t{0});
  Store(bytes, kIndexGroupAt, entry.group);
  StoreHash(bytes, kIndexParentAt, entry.parent);
  Store(bytes, kIndexDigestAt, entry.digest);
  Store(bytes, kIndexDepthAt, entry.depth);
  Store(bytes, kIndexShapeTagAt, entry.shape_tag);
  Store(bytes, kIndexPayloadSizeAt, entry.payload_bytes);
  Store(bytes, kIndexLastUsedAt, entry.last_used_us);
  Store(bytes, kIndexChecksumAt, IndexChecksum(EncodeKvKey(entry.key), out));
  return out;
}

Result<KvIndexEntry> DecodeKvIndexEntry(std::string_view key, std::string_view value) {
  KVGATE_TRY(const KvKey kv_key, DecodeKvKey(key));
  if (value.size() != kKvIndexBytes) {
    return Damaged(fmt::format("index entry of {} bytes, not {}", value.size(), kKvIndexBytes));
  }
  const char* bytes = value.data();
  if (Load<uint64_t>(bytes, kIndexChecksumAt) != IndexChecksum(key, value)) {
    return Damaged("index entry: its checksum does not match");
  }
  const auto version = Load<uint16_t>(bytes, kIndexVersionAt);
  if (version != kKvIndexVersion) {
    return Damaged(fmt::format("index entry of version {}, not {}", version, kKvIndexVersion));
  }
  return KvIndexEntry{.key = kv_key,
                      .parent = LoadHash<BlockHash>(bytes, kIndexParentAt),
                      .depth = Load<uint32_t>(bytes, kIndexDepthAt),
                      .digest = Load<PrefixDigest>(bytes, kIndexDigestAt),
                      .group = Load<uint32_t>(bytes, kIndexGroupAt),
                      .shape_tag = Load<uint32_t>(bytes, kIndexShapeTagAt),
                      .payload_bytes = Load<uint64_t>(bytes, kIndexPayloadSizeAt),
                      .last_used_us = Load<int64_t>(bytes, kIndexLastUsedAt)};
}

}  // namespace kvgate::store
