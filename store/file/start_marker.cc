#include "store/file/start_marker.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <system_error>
#include <utility>

namespace kvgate::store::file {
namespace {

// Descriptors of the markers that have begun, plus one; 0 means free. There are two databases per
// directory; markers beyond 16 are not counted.
std::array<std::atomic<int>, 16> begun{};

}  // namespace

StartMarker::StartMarker(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path_, error);  // one byte per crash
  if (!error) num_crashes_ = static_cast<uint32_t>(bytes);
}

StartMarker::~StartMarker() { Settle(); }

void StartMarker::Forget() {
  num_crashes_ = 0;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void StartMarker::Begin() {
  if (slot_ >= 0) return;
  const int descriptor =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor < 0) return;  // for example a full disk; this start is not counted
  for (size_t i = 0; i < begun.size(); ++i) {
    int free = 0;
    if (begun[i].compare_exchange_strong(free, descriptor + 1)) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
  ::close(descriptor);
}

void StartMarker::Settle() {
  if (slot_ < 0) return;
  const int descriptor = begun[static_cast<size_t>(slot_)].exchange(0) - 1;
  slot_ = -1;
  if (descriptor >= 0) ::close(descriptor);
  Forget();
}

void StartMarker::NoteCrash() noexcept {
  for (const std::atomic<int>& slot : begun) {
    const int descriptor = slot.load() - 1;
    if (descriptor < 0) continue;
    [[maybe_unused]] const ssize_t written = ::write(descriptor, "x", 1);
  }
}

}  // namespace kvgate::store::file
