#include "store/shared/shared_block_format.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/digest.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::shared {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is written by memcpy");

constexpr std::string_view kPurpose = "shared kv";
constexpr uint32_t kMagic = 0x4253564b;  // "KVSB"
// Offsets in the header; two bytes behind the version are reserved.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 4;
constexpr size_t kFingerprintAt = 8;
constexpr size_t kDigestAt = 24;
constexpr size_t kGroupAt = 56;
constexpr size_t kShapeTagAt = 60;
constexpr size_t kPayloadSizeAt = 64;
constexpr size_t kHeaderBytes = 72;

Error MakeDataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, "store.shared", std::move(detail));
}

}  // namespace

std::string SharedBlockKey(const Fingerprint& fingerprint, const PrefixDigest& digest,
                           uint32_t group) {
  std::string key = fmt::format("kvg:b:{}:{}", ToHex(fingerprint), ToHex(digest.bytes));
  if (group != 0) key += fmt::format(":{}", group);
  return key;
}

std::string SealSharedBlock(const Keyring& ring, std::string_view key, const SharedBlock& block,
                            std::span<const std::byte> payload) {
  std::string plain;
  plain.reserve(kHeaderBytes + payload.size());
  file::AppendValue(plain, kMagic);
  file::AppendValue(plain, kSharedBlockVersion);
  file::AppendValue(plain, uint16_t{0});
  file::AppendValue(plain, block.fingerprint.low);
  file::AppendValue(plain, block.fingerprint.high);
  file::AppendValue(plain, block.digest.bytes);
  file::AppendValue(plain, block.group);
  file::AppendValue(plain, block.shape_tag);
  file::AppendValue(plain, static_cast<uint64_t>(payload.size()));
  plain.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return ring.Seal({.purpose = kPurpose, .name = key}, plain);
}

Result<void> OpenSharedBlock(const Keyring& ring, std::string_view key, std::string_view value,
                             const SharedBlock& expected, std::span<std::byte> payload) {
  KVGATE_TRY(const std::string plain, ring.Open({.purpose = kPurpose, .name = key}, value));
  if (plain.size() < kHeaderBytes || file::LoadValue<uint32_t>(plain, kMagicAt) != kMagic) {
    return MakeDataLoss("the value is no KV block");
  }
  const auto version = file::LoadValue<uint16_t>(plain, kVersionAt);
  if (version != kSharedBlockVersion) {
    return MakeError(ErrorCode::kUnsupported, "store.shared",
                     fmt::format("the block has version {}, and this kvgate knows version {}",
                                 version, kSharedBlockVersion));
  }
  const SharedBlock found{
      .fingerprint = {.low = file::LoadValue<uint64_t>(plain, kFingerprintAt),
                      .high = file::LoadValue<uint64_t>(plain, kFingerprintAt + 8)},
      .digest = {.bytes = file::LoadValue<std::array<uint8_t, 32>>(plain, kDigestAt)},
      .group = file::LoadValue<uint32_t>(plain, kGroupAt),
      .shape_tag = file::LoadValue<uint32_t>(plain, kShapeTagAt)};
  const auto size = file::LoadValue<uint64_t>(plain, kPayloadSizeAt);
  const std::string_view bytes = std::string_view(plain).substr(kHeaderBytes);
  if (size != bytes.size()) return MakeDataLoss("the block is cut short");
  if (found != expected || size != payload.size()) {
    return MakeError(ErrorCode::kNotFound, "store.shared", "the block is another one");
  }
  std::memcpy(payload.data(), bytes.data(), bytes.size());
  return {};
}

}  // namespace kvgate::store::shared
