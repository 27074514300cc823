// PassageIndexes: the indices of the sessions that were last asked about, in memory. One that is
// not there is made of the log again. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/session/retrieval/passage_index.h"

namespace kvgate::session::retrieval {

class PassageIndexes {
 public:
  // `bytes_max` bounds all of them; half of it those of one tenant. The one that was not used
  // longest goes first.
  explicit PassageIndexes(size_t bytes_max) : bytes_max_(bytes_max) {}

  struct Session {
    std::string_view tenant = {};
    std::string_view key = {};
  };
  // The whole branch of which `recent` are the newest turns, from the log.
  using LoadBranch = std::function<Result<std::vector<log::LoggedTurn>>()>;
  // Returns the index of a branch as it is at its newest turn, which only this caller may use
  // until it is put back. It is taken from memory where that one can go on with `recent`, else made
  // of what `load` returns; fails as that does.
  Result<std::unique_ptr<PassageIndex>> Take(const Session& session,
                                             std::span<const log::LoggedTurn> recent,
                                             const LoadBranch& load);
  // Keeps it for the session's next turn, if there is room.
  void Put(const Session& session, std::unique_ptr<PassageIndex> index);
  // The session is removed.
  void Drop(const Session& session);

  size_t bytes() const;

 private:
  using Name = std::pair<std::string, std::string>;  // tenant and key
  struct Kept {
    Name name;
    std::unique_ptr<PassageIndex> index;
  };
  std::unique_ptr<PassageIndex> Remove(const Name& name);
  // REQUIRES: mutex_ held.
  void MakeRoom(const std::string& tenant);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  std::list<Kept> kept_;  // last used first
  std::map<Name, std::list<Kept>::iterator> by_name_;
  std::map<std::string, size_t> bytes_of_;  // of tenants
  size_t bytes_ = 0;
};

}  // namespace kvgate::session::retrieval
