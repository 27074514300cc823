// SharedLogs: append-only logs in a store that gateways share (RespClient), each of them in one
// slot. A log is added to only by who has seen all of it, so of two gateways that go on from the
// same state one wins.
//
// Entries are sealed with the gateways' common secret for their log, and names are derived from it,
// so that the store shows neither what is in a log nor whose it is. An entry that does not open is
// left out and counted. What ids a log has is kept beside it, for RootOf. A log that nobody adds to
// expires. store/FORMAT.md specifies the keys and bytes.
//
// All functions may be called from any thread; they wait for the server, at most for
// Options::call_time_max.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/seal.h"
#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

class SharedLogs {
 public:
  struct Options {
    std::chrono::seconds time_to_live{30 * 86'400};  // since the last entry; 0: no limit
    std::chrono::milliseconds call_time_max{250};
  };
  // The client and the keyring outlive it.
  SharedLogs(const Options& options, remote::RespClient& client, const Keyring& ring)
      : options_(options), client_(client), ring_(ring) {}

  struct Name {
    std::string_view tenant = {};
    std::string_view root = {};  // the id of the log's first entry
  };
  struct State {
    uint64_t length = 0;  // entries ever added, those cleared included
    // Which life of the log this is: a server that has forgotten it begins another one. Empty while
    // there is none.
    std::string epoch = {};
    friend bool operator==(const State&, const State&) = default;
  };
  struct Part {
    State state = {};    // of the whole log
    uint64_t first = 0;  // the number of the first of `entries`
    std::vector<std::string> entries = {};
    uint64_t num_damaged = 0;  // of those that would be among them
  };
  // Returns the entries from number `from` on, or from the first that was not cleared. Errors:
  // those of RespClient::Call.
  Result<Part> Read(const Name& name, uint64_t from) const;

  struct Addition {
    State expected = {};  // of a log that nobody added to meanwhile
    std::span<const std::string> entries = {};
    std::span<const std::string> ids = {};  // that RootOf finds from now on
    bool clears = false;                    // the entries take the place of all before them
  };
  // Adds all entries or none and returns the log's new state, or nothing if its state was another
  // than that expected. A server that carries it out twice adds once. REQUIRES: entries not empty.
  // Errors: those of RespClient::Call, after which it is unknown if they were added.
  Result<std::optional<State>> Append(const Name& name, const Addition& addition) const;

  // Returns the root of the log in which an id is, or nothing. Errors: those of RespClient::Call.
  Result<std::optional<std::string>> RootOf(std::string_view tenant, std::string_view id) const;

  // True if a call now would fail at once.
  bool is_paused() const { return client_.is_paused(); }

 private:
  std::string KeyOf(const Name& name) const;
  std::string IndexKeyOf(std::string_view tenant, std::string_view id) const;
  SteadyClock::time_point Deadline() const { return SteadyClock::now() + options_.call_time_max; }

  const Options options_;
  remote::RespClient& client_;
  const Keyring& ring_;
};

}  // namespace kvgate::store::shared
