#include "store/sealed_value.h"

#include <fmt/format.h>

#include <kvgate/digest.h>

namespace kvgate::store {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint64_t);

uint64_t Checksum(std::string_view key, std::string_view bytes) {
  return Xxh3(AsBytes(bytes), Xxh3(AsBytes(key)).first).first;
}

}  // namespace

std::string Seal(const SealedKind& kind, std::string_view key, std::string_view body) {
  std::string bytes;
  bytes.reserve(16 + body.size());
  AppendValue(bytes, uint64_t{0});  // the checksum's place
  AppendValue(bytes, kind.magic);
  AppendValue(bytes, kind.version);
  AppendValue(bytes, uint16_t{0});
  bytes += body;
  const uint64_t checksum = Checksum(key, std::string_view(bytes).substr(kChecksumBytes));
  std::memcpy(bytes.data(), &checksum, sizeof(checksum));
  return bytes;
}

Result<ByteReader> Unseal(const SealedKind& kind, std::string_view key, std::string_view value) {
  if (value.size() < kChecksumBytes) return Damaged(kind, "it is cut short");
  ByteReader reader(value);
  const auto checksum = reader.Take<uint64_t>();
  if (checksum != Checksum(key, value.substr(kChecksumBytes))) {
    return Damaged(kind, "its checksum does not match");
  }
  const auto magic = reader.Take<uint32_t>();
  const auto version = reader.Take<uint16_t>();
  if (magic != kind.magic || version != kind.version) {
    return Damaged(kind, fmt::format("version {}, not {}", version, kind.version));
  }
  reader.Take<uint16_t>();
  return reader;
}

Error Damaged(const SealedKind& kind, std::string_view what) {
  return MakeError(ErrorCode::kDataLoss, kind.source, fmt::format("{}: {}", kind.name, what));
}

}  // namespace kvgate::store
