// BodyBudget bounds how many bytes of request bodies are in memory at once, over all connections
// and for each tenant. A lease grows before the bytes are read, so a body that does not fit is
// refused without being read. When no other body is held, one body of body_bytes_max always fits.
// Thread-safe. It knows no sockets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "gateway/metrics/registry.h"

namespace kvgate::proxy::work {

class BodyBudget {
 public:
  struct Options {
    uint64_t bytes_max = uint64_t{512} << 20;
    double tenant_share = 0.5;
    uint64_t body_bytes_max = uint64_t{64} << 20;  // always fits when nothing else is held
  };
  explicit BodyBudget(const Options& options);

  // The bytes that one request holds; the destructor returns them. Used by one thread at a time;
  // the budget must outlive it.
  class Lease {
   public:
    Lease() = default;
    Lease(BodyBudget& budget, std::string_view tenant) : budget_(&budget), tenant_(tenant) {}
    ~Lease() { Reset(); }
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;

    // Raises the lease to `bytes` in total. Fails with kOverloaded, which carries the time after
    // which a retry may succeed, if they do not fit; the lease then keeps what it held.
    Result<void> GrowTo(uint64_t bytes);
    void ShrinkTo(uint64_t bytes);
    void Reset() { ShrinkTo(0); }
    uint64_t bytes() const { return bytes_; }

   private:
    BodyBudget* budget_ = nullptr;
    std::string tenant_;
    uint64_t bytes_ = 0;
  };

  uint64_t bytes() const;
  uint64_t num_refused() const;
  void Collect(metrics::TextWriter& writer) const;

 private:
  Result<void> Take(const std::string& tenant, uint64_t bytes);
  void Return(const std::string& tenant, uint64_t bytes);

  const uint64_t bytes_max_;
  const uint64_t tenant_bytes_max_;
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;
  uint64_t num_refused_ = 0;
  std::map<std::string, uint64_t> tenants_;  // only tenants that hold bytes
};

}  // namespace kvgate::proxy::work
