#include "sdk/src/transport/cancel.h"

namespace kvgate::sdk::transport {

void Cancel::Watch::Reset() {
  if (cancel_ == nullptr) return;
  {
    const std::lock_guard lock(cancel_->mutex_);
    cancel_->watches_.erase(id_);
  }
  cancel_.reset();
}

void Cancel::Trigger() {
  std::map<uint64_t, std::function<void()>> watches;
  {
    const std::lock_guard lock(mutex_);
    is_triggered_ = true;
    watches.swap(watches_);
  }
  for (const auto& [id, on_cancel] : watches) on_cancel();
}

bool Cancel::is_triggered() const {
  const std::lock_guard lock(mutex_);
  return is_triggered_;
}

Cancel::Watch Cancel::Add(const std::shared_ptr<Cancel>& cancel, std::function<void()> on_cancel) {
  if (cancel == nullptr) return {};
  {
    const std::lock_guard lock(cancel->mutex_);
    if (!cancel->is_triggered_) {
      const uint64_t id = cancel->next_id_++;
      cancel->watches_.emplace(id, std::move(on_cancel));
      return {cancel, id};
    }
  }
  on_cancel();
  return {};
}

}  // namespace kvgate::sdk::transport
