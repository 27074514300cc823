#include "store/file/sealed_value.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/digest.h"

namespace kvgate::store::file {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr size_t kHeadBytes = 16;

uint64_t Checksum(std::string_view key, std::string_view bytes) {
  return Xxh3(AsBytes(bytes), Xxh3(AsBytes(key)).first).first;
}

// Builds a value with a head around a body, sealed or not.
std::string Wrap(const SealedKind& kind, uint16_t version, std::string_view key,
                 std::string_view body) {
  std::string bytes;
  bytes.reserve(kHeadBytes + body.size());
  AppendValue(bytes, uint64_t{0});  // replaced by the checksum below
  AppendValue(bytes, kind.magic);
  AppendValue(bytes, version);
  AppendValue(bytes, uint16_t{0});
  bytes += body;
  const uint64_t checksum = Checksum(key, std::string_view(bytes).substr(kChecksumBytes));
  std::memcpy(bytes.data(), &checksum, sizeof(checksum));
  return bytes;
}

bool IsSealedVersion(const SealedKind& kind, uint16_t version) {
  const uint16_t oldest = kind.sealed_version_min == 0 ? kind.version : kind.sealed_version_min;
  return version >= oldest && version <= kind.version;
}

}  // namespace

std::string Seal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                 std::string_view body, std::string_view tenant) {
  const Keyring::Place place = {.purpose = kind.purpose, .tenant = tenant, .name = key};
  return Wrap(kind, kind.version, key, ring.Seal(place, body));
}

Result<UnsealedValue> Unseal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                             std::string_view value, std::string_view tenant) {
  if (value.size() < kHeadBytes) return Damaged(kind, "it is cut short");
  ByteReader reader(value);
  const auto checksum = reader.Take<uint64_t>();
  if (checksum != Checksum(key, value.substr(kChecksumBytes))) {
    return Damaged(kind, "its checksum does not match");
  }
  const auto magic = reader.Take<uint32_t>();
  const auto version = reader.Take<uint16_t>();
  const std::string_view body = value.substr(kHeadBytes);
  if (magic == kind.magic && version == kind.clear_version && kind.clear_version != 0) {
    return UnsealedValue{.body = std::string(body), .was_clear = true, .version = version};
  }
  if (magic != kind.magic || !IsSealedVersion(kind, version)) {
    return Damaged(kind, fmt::format("version {}, not {}", version, kind.version));
  }
  Result<std::string> opened =
      ring.Open({.purpose = kind.purpose, .tenant = tenant, .name = key}, body);
  if (opened) return UnsealedValue{.body = std::move(*opened), .version = version};
  Error error = std::move(opened.error());
  if (error.code == ErrorCode::kUnsupported) error.code = ErrorCode::kDataLoss;
  error.source = kind.source;
  error.detail = fmt::format("{}: {}", kind.name, error.detail);
  return error;
}

bool IsOfAnotherSecret(const SealedKind& kind, const Keyring& ring, std::string_view value) {
  if (value.size() < kHeadBytes) return false;
  ByteReader reader(value.substr(kChecksumBytes));
  const bool is_sealed =
      reader.Take<uint32_t>() == kind.magic && IsSealedVersion(kind, reader.Take<uint16_t>());
  return is_sealed && !ring.Knows(value.substr(kHeadBytes));
}

Error Damaged(const SealedKind& kind, std::string_view what) {
  return MakeError(ErrorCode::kDataLoss, kind.source, fmt::format("{}: {}", kind.name, what));
}

}  // namespace kvgate::store::file
