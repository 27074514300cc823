#include "store/file/acked_sequence.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/digest.h"
#include "base/log.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::file {
namespace {

constexpr uint32_t kMagic = 0x5153564b;  // "KVSQ"
constexpr uint32_t kVersion = 2;
constexpr uint32_t kVersionOfSequenceOnly = 1;
constexpr size_t kBytes = 56;
constexpr size_t kBytesOfSequenceOnly = 24;

std::string Encode(const AckedState& state, uint32_t version) {
  std::string bytes;
  AppendValue(bytes, kMagic);
  AppendValue(bytes, version);
  AppendValue(bytes, state.sequence);
  if (version != kVersionOfSequenceOnly) {
    AppendValue(bytes, state.first_logged);
    AppendValue(bytes, state.manifest.number);
    AppendValue(bytes, state.manifest.bytes);
    AppendValue(bytes, state.manifest.digest);
  }
  AppendValue(bytes, Xxh3(AsBytes(bytes)).first);
  return bytes;
}

}  // namespace

std::optional<AckedState> AckedSequence::Read(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  std::array<char, kBytes> buffer{};
  const ssize_t num_read = ::pread(descriptor, buffer.data(), kBytes, 0);
  ::close(descriptor);
  if (num_read < static_cast<ssize_t>(kBytesOfSequenceOnly)) return std::nullopt;
  const std::string_view bytes(buffer.data(), static_cast<size_t>(num_read));
  ByteReader reader(bytes);
  reader.Take<uint32_t>();
  const auto version = reader.Take<uint32_t>();
  AckedState state;
  state.sequence = reader.Take<uint64_t>();
  if (version == kVersion) {
    state.first_logged = reader.Take<uint64_t>();
    state.manifest.number = reader.Take<uint64_t>();
    state.manifest.bytes = reader.Take<uint64_t>();
    state.manifest.digest = reader.Take<uint64_t>();
  } else if (version != kVersionOfSequenceOnly) {
    return std::nullopt;
  }
  // A program of version 1 may have overwritten only the front of a longer file of version 2, so
  // the comparison covers the size that belongs to the version and ignores what follows.
  if (!bytes.starts_with(Encode(state, version))) return std::nullopt;
  return state;
}

AckedSequence::AckedSequence(const std::filesystem::path& path) {
  state_ = Read(path).value_or(AckedState{});
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor_ >= 0) return;
  KVGATE_LOG(kWarning, "store.meta", "{}: {}; losses of the log will not be noticed", path.string(),
             std::generic_category().message(errno));
}

AckedSequence::~AckedSequence() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AckedSequence::Note(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence <= state_.sequence) return;
  state_.sequence = sequence;
  Write();
}

void AckedSequence::NoteBase(uint64_t first_logged, const ManifestMark& manifest,
                             const std::function<bool()>& is_stale) {
  const std::lock_guard lock(mutex_);
  if (is_stale()) return;
  state_.first_logged = first_logged;
  state_.manifest = manifest;
  Write();
}

void AckedSequence::Restart(const AckedState& state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  Write();
}

// REQUIRES: mutex_ held.
void AckedSequence::Write() {
  if (descriptor_ < 0) return;
  const std::string bytes = Encode(state_, kVersion);
  // After the first write the disk block is allocated, so a full disk does not refuse later writes.
  if (::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) {
    return;
  }
  KVGATE_LOG(kDebug, "store.meta", "noting what was acknowledged: {}",
             std::generic_category().message(errno));
}

}  // namespace kvgate::store::file
