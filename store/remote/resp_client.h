// RespClient: calls to a store that speaks the Redis protocol (Valkey, Kvrocks, Redis): one server
// or several of which one answers, or a cluster, with or without TLS.
//
// A call sends all its commands at once and reads their replies in order, on a connection of its
// own while it lasts, so that calls of several threads do not wait for each other. A text reply is
// read straight into the string that the caller gets. Every call has a deadline, which includes
// connecting, and keeps it whatever the server does. After several failures in a row, calls fail at
// once for a pause, and then one of them is a trial.
//
// The protocol is RESP3 where the server takes HELLO 3, else RESP2. In a cluster each command goes
// to the node that has its key's slot; a node that names another one (MOVED, ASK) is followed.
//
// All functions may be called from any thread. The password appears in no log and no error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

struct RespOptions {
  RespAddress address;
  std::string password = {};  // empty: no AUTH, unless the address names a user
  std::string ca_file = {};   // certificates that TLS trusts; empty means the system's
  // Connections that are kept to each server; a call that finds none free opens one more, and
  // closes it. A connection has four file descriptors.
  int connections_kept = 8;
  std::chrono::milliseconds connect_timeout{500};  // part of the call's own time
  int failures_max = 3;                            // in a row, then calls fail at once
  std::chrono::milliseconds pause{2000};           // until one call may try again
  size_t reply_bytes_max = size_t{128} << 20;  // of one command, 64 KiB at least; more is kDataLoss
};

struct RespStats {
  uint64_t num_calls = 0;
  uint64_t num_failed = 0;  // without replies, also those that failed at once
  uint64_t num_connects = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  bool is_paused = false;     // calls fail at once
  std::string endpoint = {};  // that answered last; empty before the first answer
  std::string server = {};    // "redis 7.0.15", as HELLO said; empty before
  std::string error = {};     // why the last call failed; empty after one that did not
};

class RespClient {
 public:
  using TimePoint = SteadyClock::time_point;

  // Connects nowhere yet. Fails with kInvalidArgument if ca_file cannot be read.
  static Result<std::unique_ptr<RespClient>> Make(RespOptions options);
  virtual ~RespClient() = default;

  // Returns one reply per command, in their order. What the server refuses is a reply of kind
  // kError. REQUIRES: commands not empty, none without words. Errors, after which it is unknown
  // which commands were carried out: kUnavailable if no endpoint can be reached, the credentials
  // are refused, or calls are paused; kDeadline if the deadline passed; kDataLoss if what came is
  // not the protocol or too large. If a kept connection turns out to be closed before a byte has
  // come back, the commands are sent once more; should the server have died between a command and
  // its reply, it is carried out twice.
  virtual Result<std::vector<RespReply>> Call(std::span<const RespCommand> commands,
                                              TimePoint deadline) = 0;
  // The same for one command.
  Result<RespReply> CallOne(const RespCommand& command, TimePoint deadline);

  // Runs a Lua script by its digest, and with its text where the server does not know it yet. All
  // keys are in one slot. REQUIRES: keys not empty.
  struct ScriptCall {
    std::string_view script;
    std::vector<std::string_view> keys;
    std::vector<std::string_view> arguments = {};
  };
  Result<RespReply> CallScript(const ScriptCall& call, TimePoint deadline);

  // True if a call now would fail at once.
  virtual bool is_paused() const = 0;
  virtual RespStats Stats() const = 0;
};

}  // namespace kvgate::store::remote
