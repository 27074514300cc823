// SharedRows: lists of rows that one gateway each writes and the others read, in a store that they
// share (RespClient). A row may stand on texts, which are kept once however many rows do. Lists are
// found by keys, of which each may have many.
//
// Everything is sealed with the gateways' common secret for its tenant and place, and names are
// derived from it, so that the store shows neither texts nor whose they are. What does not open
// counts as absent. Everything expires unless it is renewed. store/FORMAT.md specifies the bytes.
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

class SharedRows {
 public:
  struct Options {
    std::chrono::seconds time_to_live{7 * 86'400};
    // Of a key, the newest so many lists are found; what is older leaves when there are twice as
    // many.
    size_t lists_max = 32;
  };
  // The client and the keyring outlive it.
  SharedRows(const Options& options, remote::RespClient& client, const Keyring& ring)
      : options_(options), client_(client), ring_(ring) {}

  using TimePoint = SteadyClock::time_point;

  struct Text {
    std::string name = {};        // one for these bytes
    std::string_view bytes = {};  // borrowed
    bool is_there = false;        // as far as the caller knows: only its life is prolonged
  };
  struct Addition {
    std::string tenant = {};
    std::string list = {};    // which nobody else writes to
    uint64_t num_before = 0;  // rows that it has; 0: it begins, and what it had is dropped
    std::string row = {};
    std::vector<Text> texts = {};
    // By which it is found from now on; where it leaves the first of them, it is deleted.
    std::vector<std::string> keys = {};
    std::vector<std::string> former_keys = {};  // by which it is found no more
    int64_t time_us = 0;                        // since 1970: which of several are the newest
    std::string about = {};                     // what Find says of it
  };
  // Adds rows, all in one call. Returns for each whether the list has it now, behind those that
  // were before, and all texts; if not, the server has forgotten something, and the caller begins
  // the list again. Errors: those of RespClient::Call, after which it is unknown what was added.
  Result<std::vector<bool>> Add(std::span<const Addition> additions, TimePoint deadline) const;

  struct Found {
    std::string list = {};
    int64_t time_us = 0;
    std::string about = {};
  };
  // Returns the lists found under any of the keys, each once, newest first. Errors as for Add.
  Result<std::vector<Found>> Find(std::string_view tenant, std::span<const std::string> keys,
                                  TimePoint deadline) const;

  // Returns the rows of each list, oldest first; none where the list is not there, or has a row
  // that does not open. REQUIRES: lists not empty. Errors as for Add.
  Result<std::vector<std::vector<std::string>>> Read(std::string_view tenant,
                                                     std::span<const std::string> lists,
                                                     TimePoint deadline) const;
  // Returns the texts of these names; nothing where one is not there. Errors as for Add.
  Result<std::vector<std::optional<std::string>>> ReadTexts(std::string_view tenant,
                                                            std::span<const std::string> names,
                                                            TimePoint deadline) const;

  struct Removal {
    std::string tenant = {};
    std::string list = {};
    std::vector<std::string> keys = {};
  };
  // There may be no such list. Errors as for Add.
  Result<void> Remove(std::span<const Removal> removals, TimePoint deadline) const;

  // True if a call now would fail at once.
  bool is_paused() const { return client_.is_paused(); }

 private:
  std::string KeyOf(std::string_view kind, std::string_view tenant, std::string_view name) const;
  std::string FieldOf(std::string_view tenant, std::string_view list) const;
  std::optional<std::string> Open(std::string_view tenant, std::string_view place,
                                  const std::string& sealed) const;
  std::optional<Found> OpenFound(std::string_view tenant, std::string_view key,
                                 std::string_view field, const std::string& sealed) const;
  void MakeRoom(std::string_view tenant, std::string_view key, bool deletes_lists,
                TimePoint deadline) const;

  const Options options_;
  remote::RespClient& client_;
  const Keyring& ring_;
};

}  // namespace kvgate::store::shared
