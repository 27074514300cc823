#include "gateway/proxy/work/body_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace kvgate::proxy::work {
namespace {

constexpr int kRetrySeconds = 1;

}  // namespace

BodyBudget::BodyBudget(const Options& options)
    : bytes_max_(std::max(options.bytes_max, options.body_bytes_max)),
      tenant_bytes_max_(
          std::clamp(static_cast<uint64_t>(static_cast<double>(bytes_max_) * options.tenant_share),
                     options.body_bytes_max, bytes_max_)) {}

uint64_t BodyBudget::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t BodyBudget::num_refused() const {
  const std::lock_guard lock(mutex_);
  return num_refused_;
}

void BodyBudget::Collect(metrics::TextWriter& writer) const {
  writer.Family("kvgate_bodies_bytes", "gauge", "Request bodies in memory.");
  writer.Sample("kvgate_bodies_bytes", {}, bytes());
  writer.Family("kvgate_bodies_refused_total", "counter", "Bodies that found no room.");
  writer.Sample("kvgate_bodies_refused_total", {}, num_refused());
}

Result<void> BodyBudget::Take(const std::string& tenant, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  const uint64_t own = found == tenants_.end() ? 0 : found->second;
  if (bytes > bytes_max_ - bytes_ || bytes > tenant_bytes_max_ - own) {
    ++num_refused_;
    const bool is_share = bytes <= bytes_max_ - bytes_;
    Error error = MakeError(
        ErrorCode::kOverloaded, "http",
        fmt::format("{} bytes of {} are being read or answered, and {} more do not fit into the "
                    "limit of {}; try again.",
                    is_share ? own : bytes_, is_share ? "your requests" : "requests", bytes,
                    is_share ? tenant_bytes_max_ : bytes_max_));
    error.retryable = true;
    error.retry_after_seconds = kRetrySeconds;
    return error;
  }
  bytes_ += bytes;
  if (found == tenants_.end()) {
    tenants_.emplace(tenant, bytes);
  } else {
    found->second += bytes;
  }
  return {};
}

void BodyBudget::Return(const std::string& tenant, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  KVGATE_CHECK(found != tenants_.end() && found->second >= bytes && bytes_ >= bytes,
               "more bytes of bodies are given back than were taken");
  bytes_ -= bytes;
  found->second -= bytes;
  if (found->second == 0) tenants_.erase(found);
}

BodyBudget::Lease& BodyBudget::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  budget_ = other.budget_;
  tenant_ = std::move(other.tenant_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Result<void> BodyBudget::Lease::GrowTo(uint64_t bytes) {
  if (bytes <= bytes_ || budget_ == nullptr) return {};
  KVGATE_TRY_VOID(budget_->Take(tenant_, bytes - bytes_));
  bytes_ = bytes;
  return {};
}

void BodyBudget::Lease::ShrinkTo(uint64_t bytes) {
  if (bytes >= bytes_) return;
  budget_->Return(tenant_, bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace kvgate::proxy::work
