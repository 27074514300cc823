// SharedSums: numbers that gateways add up, in a store that they share (RespClient). Each gateway
// says its own values, always all that it has counted so far, under a name and in a field of its
// own, and reads those of the others. What is said twice therefore counts once.
//
// Values are sealed with the gateways' common secret for their name and field, and names are
// derived from it, so that the store shows neither whose numbers they are nor how large. A value
// that does not open is left out and counted. store/FORMAT.md specifies the keys and bytes.
//
// All functions may be called from any thread; they wait for the server, at most until the
// deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

class SharedSums {
 public:
  // The client and the keyring outlive it.
  SharedSums(remote::RespClient& client, const Keyring& ring) : client_(client), ring_(ring) {}

  // Returns the field of the gateway with this id.
  std::string FieldOf(std::string_view gateway) const;

  struct Own {
    std::string_view kind = {};    // what is counted: "month 24323"
    std::string_view tenant = {};  // whose it is
    std::string_view field = {};   // this gateway's
    std::vector<double> values = {};
    bool is_said = true;                    // false: the values stand there already, or are nothing
    std::chrono::seconds time_to_live{0};   // of the name since anybody said something; above 0
    std::vector<std::string> removed = {};  // fields of others, which have ended
  };
  struct Other {
    std::string field = {};  // that of one gateway
    std::vector<double> values = {};
  };
  struct Others {
    std::vector<Other> others = {};  // in no order
    uint64_t num_damaged = 0;        // of those that would be among them
    bool has_own = false;            // the own field is there
  };
  // Says what this gateway has counted, and returns for each name what the others have. All goes
  // out at once. REQUIRES: own not empty. Errors: those of RespClient::Call, after which it is
  // unknown what was said; kUnavailable if the server refuses.
  Result<std::vector<Others>> Exchange(std::span<const Own> own,
                                       SteadyClock::time_point deadline) const;

  struct Claimed {
    std::string_view what = {};
    std::string_view by = {};  // an id of this process
    std::chrono::seconds time_to_live{0};
  };
  // Returns true for the process that claims first, as often as it asks, and false for others.
  // Errors as for Exchange.
  Result<bool> Claim(const Claimed& claimed, SteadyClock::time_point deadline) const;

  // True if a call now would fail at once.
  bool is_paused() const { return client_.is_paused(); }

 private:
  std::string KeyOf(const Own& own) const;
  Others Read(const Own& own, const std::string& key, const remote::RespReply& reply) const;

  remote::RespClient& client_;
  const Keyring& ring_;
};

}  // namespace kvgate::store::shared
