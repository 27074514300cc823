#include "gateway/route/single_flight.h"

#include <utility>

namespace kvgate::route {

struct SingleFlight::Participant::Flight {
  bool completed = false;                    // both members are guarded by the table's mutex
  std::vector<std::function<void()>> wakes;  // of the followers
};

SingleFlight::Participant::Participant(SingleFlight& table, std::shared_ptr<Flight> flight,
                                       const prompt::parse::Identity& prefix, bool leads)
    : table_(table), flight_(std::move(flight)), prefix_(prefix), leads_(leads) {}

SingleFlight::Participant::~Participant() {
  if (leads_) Wake();
}

bool SingleFlight::Participant::completed() const {
  const std::lock_guard lock(table_.mutex_);
  return flight_ == nullptr || flight_->completed;
}

void SingleFlight::Participant::Complete(TimePoint now) {
  {
    const std::lock_guard lock(table_.mutex_);
    auto& warm = table_.warm_;
    if (warm.size() >= table_.options_.warm_prefixes_max) {
      std::erase_if(warm,
                    [&](const auto& entry) { return now - entry.second >= table_.options_.warm; });
      // If all entries are still warm, they are dropped; later requests then wait more often.
      if (warm.size() >= table_.options_.warm_prefixes_max) warm.clear();
    }
    warm[prefix_] = now;
  }
  if (leads_) Wake();
}

void SingleFlight::Participant::Wake() {
  if (flight_ == nullptr) return;
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard lock(table_.mutex_);
    if (std::exchange(flight_->completed, true)) return;
    wakes = std::exchange(flight_->wakes, {});
    table_.flights_.erase(prefix_);
  }
  for (const auto& wake : wakes) wake();
}

bool SingleFlight::IsWarm(const prompt::parse::Identity& prefix, TimePoint now) const {
  const auto found = warm_.find(prefix);
  return found != warm_.end() && now - found->second < options_.warm;
}

std::unique_ptr<SingleFlight::Participant> SingleFlight::Join(const prompt::parse::Identity& prefix,
                                                              std::function<void()> wake,
                                                              TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (IsWarm(prefix, now)) {
    return std::unique_ptr<Participant>(new Participant(*this, nullptr, prefix, true));
  }
  std::weak_ptr<Participant::Flight>& there = flights_[prefix];
  std::shared_ptr<Participant::Flight> flight = there.lock();
  const bool leads = flight == nullptr;
  if (leads) {
    flight = std::make_shared<Participant::Flight>();
    there = flight;
  } else {
    flight->wakes.push_back(std::move(wake));
  }
  return std::unique_ptr<Participant>(new Participant(*this, std::move(flight), prefix, leads));
}

}  // namespace kvgate::route
