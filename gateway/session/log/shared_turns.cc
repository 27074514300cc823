#include "gateway/session/log/shared_turns.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/session/log/session_log.h"

namespace kvgate::session::log {
namespace {

using store::meta::Turn;

constexpr std::string_view kSource = "session.log";
constexpr size_t kPageTurns = 100;
// Times that an addition is tried again because others added to the log meanwhile.
constexpr int kAttemptsMax = 8;

std::string NameOf(const SharedTurns::Tree& tree) {
  return fmt::format("{}\n{}", tree.tenant, tree.root);
}

std::vector<std::string> MintedIds(const std::vector<Turn>& turns) {
  std::vector<std::string> ids;
  for (const Turn& turn : turns) {
    if (IsMintedKey(turn.id)) ids.push_back(turn.id);
  }
  return ids;
}

std::vector<std::string> Encoded(const std::vector<Turn>& turns) {
  std::vector<std::string> entries;
  for (const Turn& turn : turns) entries.push_back(EncodeSharedEntry({.turn = turn}));
  return entries;
}

}  // namespace

std::mutex& SharedTurns::MutexOf(const std::string& name) const {
  return tree_mutexes_[std::hash<std::string>()(name) % kMutexes];
}

SharedTurns::State SharedTurns::StateOf(const std::string& name) const {
  const std::lock_guard lock(states_mutex_);
  const State* const state = states_.Find(name);
  return state != nullptr ? *state : State();
}

void SharedTurns::Keep(const std::string& name, const State& state) {
  const std::lock_guard lock(states_mutex_);
  states_.FindOrAdd(name) = state;
}

SharedTurns::Seen SharedTurns::SeenOf(const Tree& tree) const {
  return StateOf(NameOf(tree)).num_of_others;
}

std::string SharedTurns::LastOf(const Tree& tree) const { return StateOf(NameOf(tree)).last; }

std::string SharedTurns::RootOf(std::string_view tenant, std::string_view id) const {
  if (const Result<Turn> first = turns_.FirstOf(tenant, id)) return first->id;
  const auto root = logs_.RootOf(tenant, id);
  return root && *root ? **root : std::string();
}

void SharedTurns::Refresh(const Tree& tree) {
  const std::string name = NameOf(tree);
  const std::lock_guard lock(MutexOf(name));
  State state = StateOf(name);
  (void)TakeIn(tree, state);
  Keep(name, state);
}

size_t SharedTurns::TakeInOthers(std::string_view tenant) {
  if (roots_ == nullptr) return 0;
  roots_->Hear();
  std::vector<std::string> missing;  // the oldest first
  for (std::string& root : roots_->Of(tenant)) {
    if (!turns_.Get(tenant, root)) missing.push_back(std::move(root));
  }
  const size_t first = missing.size() - std::min(missing.size(), kTakenMax);
  size_t num_taken = 0;
  for (size_t i = first; i < missing.size() && !logs_.is_paused(); ++i) {
    const Tree tree{.tenant = tenant, .root = missing[i]};
    const std::string name = NameOf(tree);
    const std::lock_guard lock(MutexOf(name));
    State state = StateOf(name);
    const Result<void> taken = TakeIn(tree, state);
    Keep(name, state);
    if (!taken) break;
    if (turns_.Get(tenant, tree.root)) {
      ++num_taken;
    } else {
      roots_->Drop({.tenant = tenant, .root = tree.root});  // it was removed, or has expired
    }
  }
  return num_taken;
}

// Reads what is new in the log. If it is not known that all that is here is there, or the server
// has forgotten the log, it is read whole, and what only this gateway has is added.
Result<void> SharedTurns::TakeIn(const Tree& tree, State& state) {
  const store::shared::SharedLogs::Name log{.tenant = tree.tenant, .root = tree.root};
  // A tree that was retired here, for want of space, may still be there.
  const bool is_here = turns_.Get(tree.tenant, tree.root).has_value();
  state.is_known &= is_here || state.log.length == 0;
  auto part = logs_.Read(log, state.is_known ? state.log.length : 0);
  if (part && state.is_known && part->state.epoch != state.log.epoch) {
    state.is_known = false;
    part = logs_.Read(log, 0);
  }
  if (!part) {
    state.is_known = false;
    return part.error();
  }
  std::vector<SharedEntry> entries;
  for (const std::string& bytes : part->entries) {
    if (std::optional<SharedEntry> entry = DecodeSharedEntry(bytes, tree.tenant)) {
      entries.push_back(*std::move(entry));
    }
  }
  state.log = part->state;
  Apply(tree, entries, state);
  if (state.is_known) return {};
  state.is_known = true;
  return AddOwn(tree, entries, state);
}

void SharedTurns::Apply(const Tree& tree, const std::vector<SharedEntry>& entries, State& state) {
  std::vector<Turn> added;
  std::set<std::string, std::less<>> ids;
  for (const SharedEntry& entry : entries) {
    const bool is_here =
        ids.contains(entry.turn.id) || turns_.Get(tree.tenant, entry.turn.id).has_value();
    switch (entry.kind) {
      case SharedEntry::Kind::kTurn:
        state.last = entry.turn.id;
        if (is_here) break;
        ids.insert(entry.turn.id);
        added.push_back(entry.turn);
        ++state.num_of_others;
        break;
      case SharedEntry::Kind::kDeleted:
        if (state.last == entry.turn.id) state.last.clear();
        if (!is_here) break;
        Store(added);
        ids.erase(entry.turn.id);
        (void)turns_.Delete(tree.tenant, entry.turn.id);
        ++state.num_of_others;
        break;
      case SharedEntry::Kind::kPurged:
        state.last.clear();
        Store(added);
        ids.clear();
        if (const auto purged = turns_.PurgeConversation(tree.tenant, tree.root);
            purged && *purged > 0) {
          ++state.num_of_others;
        }
        break;
    }
  }
  Store(added);
}

// Together where that goes; else as many as can be stored, such as those whose parents are lost.
void SharedTurns::Store(std::vector<Turn>& turns) {
  if (turns.empty()) return;
  std::vector<Turn> taken = std::exchange(turns, {});
  if (turns_.AppendAll(taken)) return;
  for (Turn& turn : taken) {
    const Result<void> stored = turns_.Append(std::move(turn));
    if (!stored) {
      KVGATE_LOG(kWarning, kSource, "a turn of another gateway is not kept here: {}",
                 stored.error().detail);
    }
  }
}

Result<void> SharedTurns::AddOwn(const Tree& tree, const std::vector<SharedEntry>& there,
                                 State& state) {
  std::set<std::string_view> known;
  for (const SharedEntry& entry : there) known.insert(entry.turn.id);
  std::vector<Turn> own;  // the newest first
  uint64_t before = 0;
  for (bool has_more = true; has_more;) {
    auto page = turns_.List({.tenant = tree.tenant,
                             .conversation_of = tree.root,
                             .limit = kPageTurns,
                             .before = before});
    if (!page) return {};  // there is none
    has_more = page->has_more && !page->turns.empty();
    for (Turn& turn : page->turns) {
      before = turn.order;
      if (!known.contains(turn.id)) own.push_back(std::move(turn));
    }
  }
  if (own.empty()) return {};
  std::reverse(own.begin(), own.end());
  KVGATE_TRY_VOID(Publish(tree, {.entries = Encoded(own), .ids = MintedIds(own)}, state));
  state.last = own.back().id;
  if (roots_ != nullptr) {
    roots_->Say({.tenant = tree.tenant, .root = tree.root}, SharedRoots::When::kAnyway);
  }
  return {};
}

Result<void> SharedTurns::Publish(const Tree& tree, const Addition& addition, State& state) {
  const store::shared::SharedLogs::Name log{.tenant = tree.tenant, .root = tree.root};
  if (!state.is_known) KVGATE_TRY_VOID(TakeIn(tree, state));
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (addition.seen && state.num_of_others != *addition.seen) {
      return MakeError(ErrorCode::kCancelled, kSource,
                       "the session has gone on at another gateway meanwhile");
    }
    const auto added = logs_.Append(log, {.expected = state.log,
                                          .entries = addition.entries,
                                          .ids = addition.ids,
                                          .clears = addition.clears});
    if (!added) {
      state.is_known = false;
      return added.error();
    }
    if (*added) {
      state.log = **added;
      return {};
    }
    KVGATE_TRY_VOID(TakeIn(tree, state));
  }
  return MakeError(ErrorCode::kUnavailable, kSource,
                   "other gateways add to the session all the time");
}

Result<void> SharedTurns::Append(const Tree& tree, std::vector<Turn> turns,
                                 std::optional<Seen> seen) {
  const std::string name = NameOf(tree);
  const std::lock_guard lock(MutexOf(name));
  State state = StateOf(name);
  const int64_t now_us = WallClock::NowUs();
  for (Turn& turn : turns) turn.created_us = now_us;
  const Result<void> published =
      Publish(tree, {.entries = Encoded(turns), .ids = MintedIds(turns), .seen = seen}, state);
  const bool is_refused = !published && published.error().code == ErrorCode::kCancelled;
  if (!is_refused) state.last = turns.back().id;
  Keep(name, state);
  if (is_refused) return published;
  if (published && roots_ != nullptr) roots_->Say({.tenant = tree.tenant, .root = tree.root});
  return turns_.AppendAll(std::move(turns));
}

Result<void> SharedTurns::Delete(const Tree& tree, std::string_view id) {
  const std::string name = NameOf(tree);
  const std::lock_guard lock(MutexOf(name));
  State state = StateOf(name);
  SharedEntry entry{.kind = SharedEntry::Kind::kDeleted};
  entry.turn.id = id;
  const Result<void> published = Publish(tree, {.entries = {EncodeSharedEntry(entry)}}, state);
  Keep(name, state);
  if (!published) return published.error();
  return turns_.Delete(tree.tenant, id);
}

Result<void> SharedTurns::Purge(const Tree& tree) {
  const std::string name = NameOf(tree);
  const std::lock_guard lock(MutexOf(name));
  State state = StateOf(name);
  const Result<void> published = Publish(
      tree, {.entries = {EncodeSharedEntry({.kind = SharedEntry::Kind::kPurged})}, .clears = true},
      state);
  Keep(name, state);
  if (!published) return published.error();
  const Result<uint64_t> purged = turns_.PurgeConversation(tree.tenant, tree.root);
  return purged ? Result<void>() : purged.error();
}

}  // namespace kvgate::session::log
