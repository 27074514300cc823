// SessionLog keeps sessions durably: each is a tree of turns under one key, and nothing of it is
// changed, only added. Its newest turn is its head. Tenants share nothing, and space, age and
// sealing are the turn store's. Thread-safe; it waits for the disk, so it is called on workers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/log/logged_turn.h"
#include "store/meta/turn_store.h"

namespace kvgate::session::log {

inline constexpr size_t kKeyBytesMax = 128;

// The id of the turn that a request makes.
std::string TurnIdOf(std::string_view request_id);

class SessionLog {
 public:
  // `turns` may be null, in which case nothing is kept. It must outlive this object.
  explicit SessionLog(store::meta::TurnStore* turns) : turns_(turns) {}

  bool keeps() const { return turns_ != nullptr && turns_->enabled(); }
  // The error for a request that needs a log where none is kept.
  static Error NotKept();

  struct Place {
    std::string_view tenant = {};
    std::string_view key = {};
  };
  // What is known of a session without reading its turns.
  struct Root {
    std::string key = {};
    Dialect dialect = Dialect::kChatCompletions;
    int64_t created_us = 0;
    uint64_t order = 0;  // for pages
  };
  // Returns kNotFound if there is none.
  Result<Root> Find(const Place& place) const;
  // Returns the newest turn; nullopt if the session has none yet.
  Result<std::optional<LoggedTurn>> Head(const Place& place, const Root& root) const;

  // kPrompt: from the turn on that the branch's newest event refers to.
  enum class Reach : uint8_t { kPrompt, kBranch };
  // Returns the turns up to `id`, in order. Returns kNotFound if one of them is lost.
  Result<std::vector<LoggedTurn>> Load(const Place& place, const Root& root, std::string_view id,
                                       Reach reach) const;

  // Durable on return, whole or not at all. Creates the session if there is none. The turn's parent
  // must be there, or empty.
  Result<void> Append(const Place& place, Dialect dialect, const LoggedTurn& turn);
  // Creates a session with these turns, all of them or none, whose ids and parents are replaced by
  // new ones. Returns kInvalidArgument, with the field "key", if there is one of that key.
  struct CreateArgs {
    Place place = {};
    Dialect dialect = Dialect::kChatCompletions;
    std::span<const LoggedTurn> turns = {};  // each one's parent stands before it, or is empty
    std::string_view request_id = {};
  };
  Result<void> Create(const CreateArgs& args);

  // Sessions, the last created first. `before` is the order of the last one of the page before.
  struct Page {
    std::vector<Root> sessions;
    bool has_more = false;
  };
  Result<Page> List(std::string_view tenant, size_t limit, uint64_t before) const;
  // All turns of all branches, in the order in which they were made.
  Result<std::vector<LoggedTurn>> All(const Place& place, const Root& root) const;
  // Deletes it with all branches. Returns kNotFound if there is none.
  Result<void> Remove(const Place& place);

 private:
  store::meta::TurnStore* const turns_;
};

}  // namespace kvgate::session::log
