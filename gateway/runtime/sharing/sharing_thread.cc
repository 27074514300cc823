#include "gateway/runtime/sharing/sharing_thread.h"

#include <utility>

#include "base/memory_fence.h"

namespace kvgate::runtime::sharing {

SharingThread::SharingThread(const Options& options, std::vector<Exchange> exchanges)
    : options_(options), exchanges_(std::move(exchanges)), thread_([this] { Run(); }) {}

SharingThread::~SharingThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void SharingThread::Run() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    lock.unlock();
    for (const Exchange& exchange : exchanges_) {
      (void)Attempt("sharing", exchange.what, exchange.run);
    }
    lock.lock();
    wake_.wait_for(lock, options_.interval, [this] { return is_stopping_; });
  }
}

}  // namespace kvgate::runtime::sharing
