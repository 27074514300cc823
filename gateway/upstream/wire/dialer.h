// Dialer: how channels to one host get their connection. TcpDialer asks the system; a simulated
// network gives a channel another end, and everything above this stays as it is.
//
// Callers on different executors may share a dialer; each call runs on its channel's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/upstream/wire/channel.h"
#include "gateway/upstream/wire/name_lookup.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream::wire {

class Dialer {
 public:
  virtual ~Dialer() = default;
  // Gives the channel's socket a connection. It gives up at `deadline` at the latest where a host
  // is silent about its name; else the caller ends it by closing the channel. The error is
  // kUnavailable, and its detail a clause about the host.
  virtual Task<Result<void>> Dial(Channel& channel, SteadyClock::time_point deadline) = 0;
};

struct DialedHost {
  std::string host;
  uint16_t port = 0;
  std::string subject = "it";  // the host's name in messages
};
using MakeDialer = std::function<std::unique_ptr<Dialer>(const DialedHost&)>;

class TcpDialer final : public Dialer {
 public:
  explicit TcpDialer(const DialedHost& host)
      : lookup_(host.host, host.port), subject_(host.subject) {}
  static std::unique_ptr<Dialer> Make(const DialedHost& host) {
    return std::make_unique<TcpDialer>(host);
  }

  Task<Result<void>> Dial(Channel& channel, SteadyClock::time_point deadline) override;

 private:
  NameLookup lookup_;
  const std::string subject_;
};

}  // namespace kvgate::upstream::wire
