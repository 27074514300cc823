#include "engine/modelfile/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/pages.h"

namespace kvgate::modelfile {
namespace {

// A load that ends early (a bad file, no memory) waits for at most one request of this size.
constexpr size_t kBytesAtOnce = size_t{8} << 20;

}  // namespace

ReadAhead::ReadAhead(std::vector<std::span<const std::byte>> runs)
    : runs_(std::move(runs)), thread_([this](const std::stop_token& stop) {
        for (std::span<const std::byte> run : runs_) {
          while (!run.empty() && !stop.stop_requested()) {
            const size_t bytes = std::min(kBytesAtOnce, run.size());
            AskForPages(run.first(bytes));
            run = run.subspan(bytes);
          }
        }
      }) {}

}  // namespace kvgate::modelfile
