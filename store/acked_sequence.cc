#include "store/acked_sequence.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include <kvgate/digest.h>
#include <kvgate/log.h>

#include "store/byte_codec.h"

namespace kvgate::store {
namespace {

constexpr uint32_t kMagic = 0x5153564b;  // "KVSQ"
constexpr uint32_t kVersion = 1;
constexpr size_t kBytes = 24;

std::string Encode(uint64_t sequence) {
  std::string bytes;
  AppendValue(bytes, kMagic);
  AppendValue(bytes, kVersion);
  AppendValue(bytes, sequence);
  AppendValue(bytes, Xxh3(AsBytes(bytes)).first);
  return bytes;
}

}  // namespace

AckedSequence::AckedSequence(const std::filesystem::path& path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    KVGATE_LOG(kWarning, "store.meta", "{}: {}; losses of the log will not be noticed",
               path.string(), std::generic_category().message(errno));
    return;
  }
  std::array<char, kBytes> bytes{};
  if (::pread(descriptor_, bytes.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) return;
  ByteReader reader(std::string_view(bytes.data(), kBytes));
  reader.Take<uint32_t>();
  reader.Take<uint32_t>();
  const auto sequence = reader.Take<uint64_t>();
  if (Encode(sequence) != std::string_view(bytes.data(), kBytes)) return;
  at_open_ = sequence;
  sequence_ = sequence;
}

AckedSequence::~AckedSequence() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AckedSequence::Note(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence <= sequence_) return;
  Write(sequence);
}

void AckedSequence::Restart(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  Write(sequence);
}

void AckedSequence::Write(uint64_t sequence) {
  sequence_ = sequence;
  if (descriptor_ < 0) return;
  const std::string bytes = Encode(sequence);
  // The block is there since the first write: a full disk does not refuse the next ones.
  if (::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) {
    return;
  }
  KVGATE_LOG(kDebug, "store.meta", "noting what was acknowledged: {}",
             std::generic_category().message(errno));
}

}  // namespace kvgate::store
