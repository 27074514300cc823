// NameLookup: the addresses of one host, from the system's resolver.
//
// The system's resolver cannot be stopped and may take half a minute: it runs on a thread of its
// own, one at a time for all that ask, and nobody waits for it longer than he wants. Who asks runs
// on one executor; the lookup may be asked from many.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/upstream/channel.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream {

class NameLookup {
 public:
  using Clock = std::chrono::steady_clock;
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  using Resolve = std::function<Result<Endpoints>(const std::string& host, uint16_t port)>;

  // getaddrinfo. kUnavailable with its reason.
  static Result<Endpoints> AskSystem(const std::string& host, uint16_t port);

  NameLookup(std::string host, uint16_t port, Resolve resolve = AskSystem);

  // kDeadline: not known by then, or the channel was closed meanwhile; else the resolver's error.
  Task<Result<Endpoints>> Find(Channel& channel, Clock::time_point deadline);

 private:
  struct Waiting;
  struct State;
  class Place;
  Result<void> Begin();
  static void Run(std::shared_ptr<State> state);
  // With the resolver's thread, which may outlive this.
  const std::shared_ptr<State> state_;
};

}  // namespace kvgate::upstream
