#include "gateway/route/single_flight.h"

#include <utility>

namespace kvgate::route {

struct SingleFlight::Seat::Flight {
  bool landed = false;                       // under the table's mutex, as what follows
  std::vector<std::function<void()>> wakes;  // of those who wait
};

SingleFlight::Seat::Seat(SingleFlight& table, std::shared_ptr<Flight> flight,
                         const prompt::Identity& prefix, bool leads)
    : table_(table), flight_(std::move(flight)), prefix_(prefix), leads_(leads) {}

SingleFlight::Seat::~Seat() {
  if (leads_) Wake();
}

bool SingleFlight::Seat::landed() const {
  const std::lock_guard lock(table_.mutex_);
  return flight_ == nullptr || flight_->landed;
}

void SingleFlight::Seat::Land(TimePoint now) {
  {
    const std::lock_guard lock(table_.mutex_);
    auto& warm = table_.warm_;
    if (warm.size() >= table_.options_.warm_prefixes_max) {
      std::erase_if(warm,
                    [&](const auto& entry) { return now - entry.second >= table_.options_.warm; });
      // All of them in use: whoever comes next waits a little more often.
      if (warm.size() >= table_.options_.warm_prefixes_max) warm.clear();
    }
    warm[prefix_] = now;
  }
  if (leads_) Wake();
}

void SingleFlight::Seat::Wake() {
  if (flight_ == nullptr) return;
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard lock(table_.mutex_);
    if (std::exchange(flight_->landed, true)) return;
    wakes = std::exchange(flight_->wakes, {});
    table_.flights_.erase(prefix_);
  }
  for (const auto& wake : wakes) wake();
}

bool SingleFlight::IsWarm(const prompt::Identity& prefix, TimePoint now) const {
  const auto found = warm_.find(prefix);
  return found != warm_.end() && now - found->second < options_.warm;
}

std::unique_ptr<SingleFlight::Seat> SingleFlight::Join(const prompt::Identity& prefix,
                                                       std::function<void()> wake, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (IsWarm(prefix, now)) {
    return std::unique_ptr<Seat>(new Seat(*this, nullptr, prefix, true));
  }
  std::weak_ptr<Seat::Flight>& there = flights_[prefix];
  std::shared_ptr<Seat::Flight> flight = there.lock();
  const bool leads = flight == nullptr;
  if (leads) {
    flight = std::make_shared<Seat::Flight>();
    there = flight;
  } else {
    flight->wakes.push_back(std::move(wake));
  }
  return std::unique_ptr<Seat>(new Seat(*this, std::move(flight), prefix, leads));
}

}  // namespace kvgate::route
