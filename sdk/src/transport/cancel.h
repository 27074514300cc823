// Cancel: a flag that ends whatever watches it. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace kvgate::sdk::transport {

class Cancel {
 public:
  // Forgets the function; it may be running then, or run once more.
  class Watch {
   public:
    Watch() = default;
    Watch(std::shared_ptr<Cancel> cancel, uint64_t id) : cancel_(std::move(cancel)), id_(id) {}
    ~Watch() { Reset(); }
    Watch(Watch&& other) noexcept
        : cancel_(std::move(other.cancel_)), id_(std::exchange(other.id_, 0)) {}
    Watch& operator=(Watch&& other) noexcept {
      Reset();
      cancel_ = std::move(other.cancel_);
      id_ = std::exchange(other.id_, 0);
      return *this;
    }
    void Reset();

   private:
    std::shared_ptr<Cancel> cancel_;
    uint64_t id_ = 0;
  };

  // Calls the functions of all watches, on this thread.
  void Trigger();
  bool is_triggered() const;
  // Calls `on_cancel` when the flag is set, at once if it is. The function must not own what it
  // ends.
  static Watch Add(const std::shared_ptr<Cancel>& cancel, std::function<void()> on_cancel);

 private:
  mutable std::mutex mutex_;
  bool is_triggered_ = false;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::function<void()>> watches_;
};

}  // namespace kvgate::sdk::transport
