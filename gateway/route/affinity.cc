#include "gateway/route/affinity.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>

namespace kvgate::route {
namespace {

// A prefix belongs to the member with the largest weight.
uint64_t WeightOf(const prompt::parse::Identity& prefix, std::string_view member) {
  return XXH3_64bits_withSeed(member.data(), member.size(), prefix.low ^ prefix.high);
}

}  // namespace

std::vector<size_t> Affinity::Order(const prompt::parse::Identity& conversation,
                                    const prompt::parse::Identity& prefix,
                                    std::span<const Member> members, TimePoint now) {
  std::string kept;
  {
    const std::lock_guard lock(mutex_);
    const Place* place = places_.Peek(conversation);
    if (place != nullptr && now - place->at < options_.ttl) kept = place->member;
  }
  const int running = std::accumulate(
      members.begin(), members.end(), 0,
      [](int sum, const Member& member) { return sum + (member.usable ? member.num_running : 0); });
  const auto usable = std::count_if(members.begin(), members.end(),
                                    [](const Member& member) { return member.usable; });
  // The request that is being placed counts too, so that an idle pool accepts it.
  const double bound =
      std::max<double>(kNeverBusy, options_.load_factor * (running + 1) /
                                       static_cast<double>(std::max<std::ptrdiff_t>(usable, 1)));
  const auto rank = [&](const Member& member) {
    if (!member.usable) return 3;
    if (member.name == kept) return 0;
    return member.num_running + 1 <= bound ? 1 : 2;
  };
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int rank_a = rank(members[a]);
    const int rank_b = rank(members[b]);
    if (rank_a != rank_b) return rank_a < rank_b;
    const uint64_t weight_a = WeightOf(prefix, members[a].name);
    const uint64_t weight_b = WeightOf(prefix, members[b].name);
    return weight_a != weight_b ? weight_a > weight_b : a < b;
  });
  return order;
}

void Affinity::Keep(const prompt::parse::Identity& conversation, std::string_view member,
                    TimePoint now) {
  const std::lock_guard lock(mutex_);
  Place& place = places_.FindOrAdd(conversation);
  place.member = member;
  place.at = now;
}

}  // namespace kvgate::route
