#include "gateway/upstream/wire/name_lookup.h"

#include <netdb.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/memory_fence.h"

namespace kvgate::upstream::wire {
namespace {

namespace asio = boost::asio;

Error Failed(ErrorCode code, std::string detail) {
  return MakeError(code, "upstream", std::move(detail));
}

}  // namespace

// One waiting caller. Only its executor's thread uses it: the coroutine and the handlers posted
// there.
struct NameLookup::Waiting {
  Channel::executor_type executor;
  Timer* pause = nullptr;  // null: nobody waits any more
  std::optional<Result<Endpoints>> result;
};

struct NameLookup::State {
  std::string host;
  uint16_t port = 0;
  Resolve resolve;
  std::mutex mutex;
  bool running = false;
  // Their executors are alive while they are in this list.
  std::vector<std::shared_ptr<Waiting>> waiting;
};

// Holds a caller's place in the list. The destructor removes it, so nothing is posted to an
// executor that has ended.
class NameLookup::Place {
 public:
  Place(State& state, std::shared_ptr<Waiting> waiting)
      : state_(state), waiting_(std::move(waiting)) {
    const std::lock_guard lock(state_.mutex);
    state_.waiting.push_back(waiting_);
  }
  ~Place() {
    waiting_->pause = nullptr;
    const std::lock_guard lock(state_.mutex);
    std::erase(state_.waiting, waiting_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  State& state_;
  const std::shared_ptr<Waiting> waiting_;
};

Result<NameLookup::Endpoints> NameLookup::AskSystem(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return Failed(ErrorCode::kUnavailable, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Endpoints endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    endpoint.resize(entry->ai_addrlen);
    std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen,
                reinterpret_cast<char*>(endpoint.data()));
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

NameLookup::NameLookup(std::string host, uint16_t port, Resolve resolve)
    : state_(std::make_shared<State>()) {
  state_->host = std::move(host);
  state_->port = port;
  state_->resolve = std::move(resolve);
}

void NameLookup::Run(std::shared_ptr<State> state) {
  std::optional<Result<Endpoints>> result;
  Insist([&] { result = state->resolve(state->host, state->port); });
  const std::lock_guard lock(state->mutex);
  state->running = false;
  for (const std::shared_ptr<Waiting>& one : state->waiting) {
    // If the post fails, the caller notices at its deadline.
    (void)Attempt("upstream", "telling a host's address", [&] {
      asio::post(one->executor, [one, result] {
        one->result = *result;
        if (one->pause != nullptr) one->pause->cancel();
      });
    });
  }
  state->waiting.clear();
}

Result<void> NameLookup::Begin() {
  const std::lock_guard lock(state_->mutex);
  if (state_->running) return {};
  try {
    std::thread(&NameLookup::Run, state_).detach();
  } catch (const std::system_error& error) {
    return Failed(ErrorCode::kUnavailable, error.what());
  }
  state_->running = true;
  return {};
}

Task<Result<NameLookup::Endpoints>> NameLookup::Find(Channel& channel, Clock::time_point deadline) {
  boost::system::error_code not_numeric;
  const auto address = asio::ip::make_address(state_->host, not_numeric);
  if (!not_numeric) co_return Endpoints{{address, state_->port}};
  const auto self = std::make_shared<Waiting>();
  self->executor = channel.get_executor();
  self->pause = &channel.pause();
  self->pause->expires_at(deadline);
  const Place place(*state_, self);
  if (const Result<void> begun = Begin(); !begun) co_return begun.error();
  co_await self->pause->async_wait(kAwait);
  if (self->result) co_return *self->result;
  co_return Failed(ErrorCode::kDeadline, "the system's resolver has not answered in time");
}

}  // namespace kvgate::upstream::wire
