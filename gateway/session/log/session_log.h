// SessionLog keeps sessions durably: each is a tree of turns under one key, and nothing of it is
// changed, only added. Its newest turn is its head. Tenants share nothing, and space, age and
// sealing are the turn store's. Stored responses and conversations are sessions too, whose keys are
// the id of the first response and that of the conversation; their stores write the entries, which
// are read here (kept_turn.h). Where gateways share their turns (shared_turns.h), what others added
// is taken in before a session is looked up. Thread-safe; it waits for the disk, so it is called on
// workers.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/session/log/shared_turns.h"
#include "store/meta/turn_store.h"

namespace kvgate::session::log {

inline constexpr size_t kKeyBytesMax = 128;

// The id of the turn that a request makes.
std::string TurnIdOf(std::string_view request_id);
// True for an id that this gateway gives to a response or a conversation. Nobody else may use one
// as a key.
bool IsMintedKey(std::string_view key);

class SessionLog {
 public:
  // `turns` may be null, in which case nothing is kept; `shared` may be, if no other gateway has
  // them. Both outlive this object.
  explicit SessionLog(store::meta::TurnStore* turns, SharedTurns* shared = nullptr)
      : turns_(turns), shared_(turns != nullptr ? shared : nullptr) {}

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
    uint64_t order = 0;       // for pages
    std::string turn = {};    // the one whose branch was named; empty: the newest
    std::string anchor = {};  // the id of one of its entries
  };
  // Returns kNotFound if there is none. The id of any stored response finds its session.
  Result<Root> Find(const Place& place) const;
  // Returns the newest turn, of the branch that was named; nullopt if the session has none yet.
  Result<std::optional<LoggedTurn>> Head(const Place& place, const Root& root) const;
  // The id of the newest event that was added behind a stored response; its own if there is none.
  Result<std::string> NewestAfter(std::string_view tenant, std::string_view response) const;

  // kPrompt: from the turn on that the branch's newest event refers to. kThere: as far back as
  // turns are there, however many were deleted before.
  enum class Reach : uint8_t { kPrompt, kBranch, kThere };
  // Returns the turns up to `id`, in order. Returns kNotFound if one of them is lost.
  Result<std::vector<LoggedTurn>> Load(const Place& place, const Root& root, std::string_view id,
                                       Reach reach) const;

  // How much other gateways had added to a session when it was looked up last.
  SharedTurns::Seen SeenOf(const Place& place) const;
  // Takes in what other gateways have made of a stored response or a conversation, and returns how
  // much they have added to its session.
  SharedTurns::Seen Refresh(std::string_view tenant, std::string_view id) const;

  // Durable on return, whole or not at all. Creates the session if there is none. The turn's parent
  // must be there, or empty. With `seen`, returns kCancelled if other gateways have added to it
  // since. To a stored response or a conversation only events are added this way, with
  // kCancelled if another entry came behind the parent meanwhile.
  Result<void> Append(const Place& place, Dialect dialect, const LoggedTurn& turn,
                      std::optional<SharedTurns::Seen> seen = std::nullopt);
  // The same for an entry of a stored response or a conversation, as its store wrote it: without a
  // parent it begins the session of that key. With `follows_events` it goes on from what was added
  // behind its parent meanwhile. Returns kInvalidArgument for a taken id.
  Result<void> AppendKept(const Place& place, store::meta::Turn entry, bool follows_events = false);
  // Adds an entry behind the newest one of a conversation, whose id `make` is given, or none. It is
  // asked again if another gateway adds one meanwhile.
  using MakeEntry = std::function<Result<store::meta::Turn>(const std::string& tip)>;
  Result<void> AppendAtTip(const Place& place, const MakeEntry& make);
  // Returns the id of a conversation's newest entry; kNotFound if there is no conversation.
  Result<std::string> Tip(const Place& place) const;
  // Deletes a response's entry, and with its last one the session.
  Result<void> RemoveKept(std::string_view tenant, std::string_view id);
  // Deletes a conversation's entries; responses that were made in it stay in the session.
  Result<void> RemoveConversation(const Place& place);
  // Creates a session with these turns, all of them or none, whose ids and parents are replaced by
  // new ones. Returns kInvalidArgument, with the field "key", if there is one of that key.
  struct CreateArgs {
    Place place = {};
    Dialect dialect = Dialect::kChatCompletions;
    std::span<const LoggedTurn> turns = {};  // each one's parent stands before it, or is empty
    std::string_view request_id = {};
  };
  Result<void> Create(const CreateArgs& args);

  // Sessions, the last created first; of those from other gateways, the last that came: before the
  // first page, some that are not here are taken in. `before` is the `next` of the page before.
  struct Page {
    std::vector<Root> sessions;
    bool has_more = false;
    uint64_t next = 0;
  };
  Result<Page> List(std::string_view tenant, size_t limit, uint64_t before) const;
  // All turns of all branches, in the order in which they were made.
  Result<std::vector<LoggedTurn>> All(const Place& place, const Root& root) const;
  // Calls `visit` with each of them, the newest first, one page at a time.
  Result<void> ForEach(const Place& place, const Root& root,
                       const std::function<void(LoggedTurn)>& visit) const;
  // Deletes it with all branches. Returns kNotFound if there is none.
  Result<void> Remove(const Place& place);

 private:
  Result<void> AppendEvent(const Place& place, const LoggedTurn& event);
  // Adds turns to the tree with that root, and deletes one of them.
  Result<void> Write(std::string_view tenant, std::string_view root,
                     std::vector<store::meta::Turn> turns,
                     std::optional<SharedTurns::Seen> seen = std::nullopt);
  Result<void> WriteBehind(store::meta::Turn entry,
                           std::optional<SharedTurns::Seen> seen = std::nullopt);
  Result<void> Erase(std::string_view tenant, std::string_view root, std::string_view id);
  Result<void> EraseListed(const Place& place);
  // Deletes the session if no entry but its root is left.
  Result<void> RemoveIfEmpty(std::string_view tenant, std::string_view root_id);

  store::meta::TurnStore* const turns_;
  SharedTurns* const shared_;  // null: no other gateway has the turns
  std::mutex mutex_;           // held while a conversation is added to or deleted
};

// The turns without entries that say nothing and are no events; others go on from what is before.
std::vector<LoggedTurn> WithoutSilent(std::vector<LoggedTurn> turns);

}  // namespace kvgate::session::log
