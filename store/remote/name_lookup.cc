#include "store/remote/name_lookup.h"

#include <netdb.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/memory_fence.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {
namespace {

Error Failed(ErrorCode code, std::string detail) {
  return MakeError(code, "store.remote", std::move(detail));
}

}  // namespace

// One run of the resolver. The mutex of State guards it.
struct NameLookup::Run {
  std::optional<Result<Addresses>> result;  // none while it goes on
  TimePoint ended{};
};

struct NameLookup::State {
  explicit State(Resolve with) : resolve(std::move(with)) {}

  const Resolve resolve;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Run>> runs;  // the last one for each host
};

Result<NameLookup::Addresses> NameLookup::AskSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return Failed(ErrorCode::kUnavailable, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  if (addresses.empty()) return Failed(ErrorCode::kUnavailable, "it has no address");
  return addresses;
}

NameLookup::NameLookup(Resolve resolve) : state_(std::make_shared<State>(std::move(resolve))) {}

void NameLookup::Finish(State& state, const std::string& host, Run& run) {
  std::optional<Result<Addresses>> result;
  Insist([&] { result = state.resolve(host); });
  const std::lock_guard lock(state.mutex);
  run.result = std::move(result);
  run.ended = std::chrono::steady_clock::now();
  state.changed.notify_all();
}

Result<std::shared_ptr<NameLookup::Run>> NameLookup::Join(const std::string& host) const {
  const TimePoint now = std::chrono::steady_clock::now();
  std::erase_if(state_->runs, [&](const auto& one) {
    const Run& run = *one.second;
    return run.result && (!*run.result || run.ended + kFresh < now);
  });
  if (const auto found = state_->runs.find(host); found != state_->runs.end()) return found->second;
  const auto num_running = std::ranges::count_if(
      state_->runs, [](const auto& one) { return !one.second->result.has_value(); });
  if (static_cast<size_t>(num_running) >= kRunsMax) {
    return Failed(ErrorCode::kOverloaded, "too many other names are looked up");
  }
  auto run = std::make_shared<Run>();
  state_->runs[host] = run;
  try {
    std::thread([state = state_, host, run] { Finish(*state, host, *run); }).detach();
  } catch (const std::system_error& error) {
    state_->runs.erase(host);
    return Failed(ErrorCode::kUnavailable, error.what());
  }
  return run;
}

Result<NameLookup::Addresses> NameLookup::Find(const std::string& host, TimePoint deadline) const {
  if (IsIpAddress(host)) return Addresses{host};
  std::unique_lock lock(state_->mutex);
  KVGATE_TRY(const std::shared_ptr<Run> run, Join(host));
  if (!state_->changed.wait_until(lock, deadline, [&] { return run->result.has_value(); })) {
    return Failed(ErrorCode::kDeadline, "the system's resolver has not answered in time");
  }
  return *run->result;
}

}  // namespace kvgate::store::remote
