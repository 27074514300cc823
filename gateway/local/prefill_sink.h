// PrefillSink receives the end of a request that only prefills. It is shared with the engine, and
// either owner may release it first.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/engine.h"

namespace kvgate::local {

class PrefillSink final : public engine::TokenSink {
 public:
  // `wake` is called on the engine thread when the request has ended.
  explicit PrefillSink(std::function<void()> wake) : wake_(std::move(wake)) {}

  void OnToken(engine::TokenEvent) override {}
  void OnFinish(engine::FinishEvent event) override {
    const std::lock_guard lock(mutex_);
    finish_ = std::move(event);
    if (wake_) wake_();
  }
  std::optional<engine::FinishEvent> finish() const {
    const std::lock_guard lock(mutex_);
    return finish_;
  }
  // When this returns, no thread is inside wake_ any more and none will call it.
  void Detach() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::optional<engine::FinishEvent> finish_;
};

}  // namespace kvgate::local
