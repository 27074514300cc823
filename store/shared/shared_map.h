// SharedMap: named values in a store that gateways share (RespClient), each of which has a version.
// A value is set by who has seen the version that it replaces, so of two gateways that change the
// same value one is told to read it again. What a value means, and what becomes of two that differ,
// is their caller's matter.
//
// Values are sealed with the gateways' common secret for their key and tenant, and keys are derived
// from it, so that the store shows neither what a value says nor whose it is. Each has one slot. In
// a map that is listed all share one, and ChangedSince says which were set: whoever asks now and
// then reads what has changed and nothing else. store/FORMAT.md specifies the keys and bytes.
//
// A server forgets: a value expires, is evicted, or is lost with all others. What is lost counts as
// never set; who has a copy sets it again. To know that all was lost, a map has a life, a text that
// is another one from then on.
//
// All functions may be called from any thread; they wait for the server, at most until the
// deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

class SharedMap {
 public:
  struct Options {
    std::string kind = {};  // what the values are: "memory", "pins"
    // A value lives so long since it was set, renewed or, if none are listed, read; 0: no limit.
    std::chrono::seconds time_to_live{30 * 86'400};
    size_t value_bytes_max = size_t{1} << 20;
    bool is_listed = false;
    size_t listed_max = 16'384;  // values that were set last; ChangedSince names no others
  };
  // The client and the keyring outlive it.
  SharedMap(Options options, remote::RespClient& client, const Keyring& ring);

  struct Name {
    std::string_view tenant = {};
    std::string_view name = {};
  };
  // Names the value for the other functions. Equal for all gateways with the same secret.
  std::string KeyOf(const Name& name) const;

  struct Value {
    enum class State {
      kAbsent,   // never set, or forgotten
      kThere,    // it has a tenant and bytes
      kDamaged,  // it is not what any gateway set; setting it anew heals it
      kForeign,  // of a newer version, or of a secret that is missing here; it is left alone
    };
    State state = State::kAbsent;
    std::string version = {};  // what Set expects; empty if absent
    std::string tenant = {};
    std::string bytes = {};
  };
  // Returns the values in the order of their keys. Errors: those of RespClient::Call; kUnavailable
  // if the server refuses.
  Result<std::vector<Value>> Get(std::span<const std::string> keys,
                                 SteadyClock::time_point deadline) const;

  struct Setting {
    Name name = {};
    std::string_view expected = {};  // the version that was read; empty: absent
    std::string_view bytes = {};
    std::optional<std::chrono::seconds> time_to_live = {};  // absent: that of the options
  };
  // Returns the new version, or nothing if there is another version than was expected. A server
  // that carries it out twice sets it once. Errors: kTooLarge for more than value_bytes_max; those
  // of Get, after which it is unknown if it was set.
  Result<std::optional<std::string>> Set(const Setting& setting,
                                         SteadyClock::time_point deadline) const;

  // Lets values live for time_to_live from now on; returns for each if it is there. Errors as for
  // Get.
  Result<std::vector<bool>> Renew(std::span<const std::string> keys,
                                  SteadyClock::time_point deadline) const;

  // Returns the life of a map that is not listed, which begins with this call if there is none.
  Result<std::string> Life(SteadyClock::time_point deadline) const;

  struct Position {
    std::string life = {};  // empty: nothing was ever set
    uint64_t last = 0;      // the number of the last change that was seen
  };
  struct Changes {
    Position position = {};              // of another life than was asked for: keys begin anew
    std::vector<std::string> keys = {};  // oldest change first, each once
    bool has_more = false;
  };
  // Returns which values were set after a position, at most `keys_max`. Where all was forgotten its
  // life is empty. REQUIRES: a listed map. Errors as for Get.
  Result<Changes> ChangedSince(const Position& position, size_t keys_max,
                               SteadyClock::time_point deadline) const;

  bool is_paused() const { return client_.is_paused(); }  // a call now would fail at once
  size_t value_bytes_max() const { return options_.value_bytes_max; }

 private:
  Value Read(const std::string& key, const remote::RespReply& reply) const;

  const Options options_;
  remote::RespClient& client_;
  const Keyring& ring_;
  const std::string begin_;      // of each value's key
  const std::string index_key_;  // of a listed map: its keys by the numbers of their last changes
  const std::string life_key_;
};

}  // namespace kvgate::store::shared
