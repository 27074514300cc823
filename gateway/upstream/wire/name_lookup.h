// NameLookup: the addresses of one host, from the system's resolver.
//
// The system's resolver cannot be cancelled and may take half a minute, so it runs on a thread of
// its own, one run at a time for all callers, and each caller stops waiting at its deadline. A
// caller uses one executor; callers on different executors may share a lookup.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/upstream/wire/channel.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream::wire {

class NameLookup {
 public:
  using Clock = SteadyClock;
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  using Resolve = std::function<Result<Endpoints>(const std::string& host, uint16_t port)>;

  // Calls getaddrinfo. Fails with kUnavailable and its reason.
  static Result<Endpoints> AskSystem(const std::string& host, uint16_t port);

  NameLookup(std::string host, uint16_t port, Resolve resolve = AskSystem);

  // Fails with kDeadline if there is no result by then or the channel was closed meanwhile; else
  // with the resolver's error.
  Task<Result<Endpoints>> Find(Channel& channel, Clock::time_point deadline);

 private:
  struct Waiting;
  struct State;
  class Place;
  Result<void> Begin();
  static void Run(std::shared_ptr<State> state);
  // Shared with the resolver's thread, which may outlive this object.
  const std::shared_ptr<State> state_;
};

}  // namespace kvgate::upstream::wire
