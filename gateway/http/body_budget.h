// BodyBudget: how many bytes of request bodies may be in memory at once, over all connections, and
// how many of them for one tenant. A lease grows before the bytes are read: what does not fit is
// refused, and read by nobody. One body of the largest size that is taken always fits where nothing
// else is. Thread-safe. It knows no sockets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <kvgate/result.h>

#include "gateway/metrics/registry.h"

namespace kvgate::http {

class BodyBudget {
 public:
  struct Options {
    uint64_t bytes_max = uint64_t{512} << 20;
    double tenant_share = 0.5;
    uint64_t body_bytes_max = uint64_t{64} << 20;  // always fits where nothing else is
  };
  explicit BodyBudget(const Options& options);

  // The bytes of one request; given back when it goes. One thread at a time; outlives no budget.
  class Lease {
   public:
    Lease() = default;
    Lease(BodyBudget& budget, std::string_view tenant) : budget_(&budget), tenant_(tenant) {}
    ~Lease() { Reset(); }
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;

    // To so many in all. kOverloaded, with the time after which trying again may help: they do not
    // fit, and it holds what it held.
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
  std::map<std::string, uint64_t> tenants_;  // those that hold some
};

}  // namespace kvgate::http
