// SimulatedSessions runs conversations on the simulated clock: clients, a network that delays,
// repeats and loses messages, and the real stores of turns and pins on a simulated disk. It keeps a
// copy of all that was acknowledged and compares: a turn may be absent only if age, a deletion,
// damage or lost power explains it, and nobody ever reads a text other than the one that was
// stored.
//
// It generates no text: Receive says what an engine has to answer, and Answer takes what it said.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/kv/kv_format.h"
#include "store/meta/pin_book.h"
#include "store/meta/turn_format.h"
#include "store/meta/turn_store.h"
#include "tests/engine/simulation/simulated_meta_store.h"
#include "tests/engine/simulation/simulated_store.h"

namespace kvgate::engine {

struct SessionTotals {
  uint64_t num_turns = 0;     // acknowledged
  uint64_t num_compared = 0;  // turns and lists of pins that were read and compared
  uint64_t num_resent = 0;    // by clients that got no answer
  uint64_t num_repeated = 0;  // answered from the store
  uint64_t num_power_losses = 0;
  uint64_t num_explained = 0;  // acknowledged turns that are absent for an allowed reason
  uint64_t num_pins = 0;
  uint64_t num_faults = 0;  // lost messages and disk faults
};

class SimulatedSessions {
 public:
  using Tokens = std::vector<TokenId>;
  using TimePoint = SteadyClock::time_point;
  using Below = store::SimulatedMetaStore::Below;

  // A request that an engine has to answer.
  struct Asked {
    std::string id;
    std::string tenant;
    Tokens prompt;
    int num_tokens = 0;
  };

  SimulatedSessions(Below below, const TimePoint& now, store::SimulatedStore& kv,
                    SessionTotals& totals)
      : below_(std::move(below)), now_(now), kv_(kv), totals_(totals), meta_(below_) {
    meta_.syncs = Chance(50);
    loss_percent_ = Chance(50) ? static_cast<int>(Draw(30)) : 0;
    retention_ = std::chrono::seconds(100 + Draw(2000));
    turn_bytes_max_ = Chance(30) ? 8 * 1024 : 1024 * 1024;
    Tick();
    WallClock::Simulate(&wall_us_);
    for (size_t i = 0; i < 6; ++i) {
      Session& session = sessions_.emplace_back();
      session.tenant = "tenant" + std::to_string(i % 3);
      session.key = "session" + std::to_string(i);
    }
    Start();
  }
  ~SimulatedSessions() {
    Stop(false);
    WallClock::Simulate(nullptr);
  }
  SimulatedSessions(const SimulatedSessions&) = delete;
  SimulatedSessions& operator=(const SimulatedSessions&) = delete;

  void Start() {
    Tick();
    meta_.Revive();
    auto turns = store::meta::TurnStore::Open({.meta = meta_,
                                               .retention = retention_,
                                               .bytes_max = turn_bytes_max_,
                                               .retire_interval = std::chrono::hours(24),
                                               .now_us = [this] { return Tick(); }});
    ASSERT_TRUE(turns.has_value()) << turns.error().ToString();
    turns_ = std::move(*turns);
    auto pins = store::meta::PinBook::Open(meta_, kv_, false);
    ASSERT_TRUE(pins.has_value()) << pins.error().ToString();
    pins_ = std::move(*pins);
    Compare();
  }

  // Ends the process: messages on the network are lost, and with `is_crash` perhaps power as well.
  void Stop(bool is_crash) {
    if (turns_ == nullptr) return;
    turns_.reset();
    pins_.reset();
    kv_.ForgetPins();
    messages_.clear();
    asked_.clear();
    if (is_crash && Chance(50)) LosePower();
    totals_.num_faults += std::exchange(meta_.num_faults, 0);
  }
  bool is_killed() const { return meta_.is_killed(); }

  void Operate() {
    Tick();
    const uint64_t kind = Draw(100);
    if (kind < 45) return Say();
    if (kind < 52) return Delete();
    if (kind < 54) return Purge();
    if (kind < 60) return Retire();
    if (kind < 72) return PutPin();
    if (kind < 78) return RemovePin();
    if (kind < 82) return DropPins();
    if (kind < 87) return Steal();
    if (kind < 91) return Damage();
    if (kind < 94) {
      meta_.refuses = Chance(30);
    } else if (kind < 96) {
      meta_.writes_until_kill = static_cast<int>(Draw(4));
    } else if (kind < 98) {
      Sync();
    } else {
      Compare();
    }
  }

  // Returns the next message that has arrived and needs an engine. Clients without an answer ask
  // again.
  std::optional<Asked> Receive() {
    Tick();
    for (Session& session : sessions_) {
      if (session.asks && session.resend_at <= now_) Send(session);
    }
    while (true) {
      const auto at = std::ranges::find_if(
          messages_, [&](const Message& message) { return message.due <= now_; });
      if (at == messages_.end()) break;
      const Message message = std::move(*at);
      messages_.erase(at);
      if (message.outcome) {
        Hear(message);
      } else if (auto asked = Take(message.turn)) {
        return asked;
      }
    }
    return std::nullopt;
  }
  // Returns the time of the next event that happens by itself.
  TimePoint NextAt() const {
    TimePoint next = TimePoint::max();
    for (const Message& message : messages_) next = std::min(next, message.due);
    for (const Session& session : sessions_) {
      if (session.asks) next = std::min(next, session.resend_at);
    }
    return next;
  }

  // Takes the answer to what Receive gave. Without `tokens` there is no answer: the client hears
  // that or, if the connection is broken, asks again.
  void Answer(const std::string& id, const std::optional<Tokens>& tokens, bool is_broken = false) {
    Tick();
    const auto found = asked_.find(id);
    ASSERT_NE(found, asked_.end());
    store::meta::Turn turn = std::move(found->second);
    asked_.erase(found);
    if (is_broken) return;
    if (!tokens) return Reply(turn, Outcome::kRefused);
    turn.items.push_back({.role = "assistant", .payload = TextOf(*tokens)});
    Store(std::move(turn));
  }

  // Reads again all that has been acknowledged, and compares.
  void Compare() {
    Tick();
    for (auto& [id, known] : known_) Check(known);
    ComparePins();
  }

 private:
  enum class Outcome { kStored, kNotStored, kRefused };
  struct Message {
    TimePoint due;
    store::meta::Turn turn;
    std::optional<Outcome> outcome;  // absent in messages to the gateway
  };
  struct Session {
    std::string tenant;
    std::string key;
    std::string last_id;  // the turn that the client continues
    size_t num_tokens = 0;
    std::optional<store::meta::Turn> asks;
    TimePoint resend_at;
    int num_sent = 0;
  };
  // A turn whose writing has begun.
  struct Known {
    store::meta::Turn turn;
    std::string first;  // the first turn of its conversation
    bool may_be_there = true;
    bool may_be_absent = false;
  };
  // The last times a conversation was continued: possibly, acknowledged, and safe from a power
  // loss.
  struct Silence {
    int64_t last_us = 0;
    int64_t kept_us = 0;
    int64_t synced_us = 0;
  };
  using Pins = std::map<BlockHash, store::meta::Pin>;

  uint64_t Draw(uint64_t bound) { return below_(bound); }
  bool Chance(int percent) { return Draw(100) < static_cast<uint64_t>(percent); }
  int64_t Tick() {
    const auto since =
        std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch());
    return wall_us_ = 1'700'000'000'000'000 + since.count();
  }

  static std::string TextOf(const Tokens& tokens) {
    std::string text;
    for (const TokenId token : tokens) text += std::to_string(token) + " ";
    return text;
  }
  static void Append(const std::string& text, Tokens& tokens) {
    std::istringstream stream(text);
    for (TokenId token = 0; stream >> token;) tokens.push_back(token);
  }

  // --- clients ---

  void Say() {
    Session& session = sessions_[Draw(sessions_.size())];
    if (session.asks) return;
    if (session.num_tokens > 100 || Chance(10)) Forget(session);
    Tokens said;
    for (uint64_t left = 3 + Draw(14); left > 0; --left) {
      said.push_back(3 + static_cast<TokenId>(Draw(580)));
    }
    store::meta::Turn turn;
    turn.id = "turn" + std::to_string(++num_ids_);
    turn.parent = session.last_id;
    turn.tenant = session.tenant;
    turn.session = session.key;
    turn.tokens.output = 1 + static_cast<int64_t>(Draw(5));
    turn.items.push_back({.role = "user", .payload = TextOf(said)});
    session.asks = std::move(turn);
    session.num_sent = 0;
    Send(session);
  }
  static void Forget(Session& session) {
    session.last_id.clear();
    session.num_tokens = 0;
  }
  void Send(Session& session) {
    if (++session.num_sent > 6) {  // it gives up, and starts a new conversation
      session.asks.reset();
      return Forget(session);
    }
    if (session.num_sent > 1) ++totals_.num_resent;
    session.resend_at = now_ + std::chrono::milliseconds(5'000 + Draw(20'000));
    Carry({.due = {}, .turn = *session.asks, .outcome = std::nullopt});
  }
  void Carry(Message message) {
    if (Chance(loss_percent_)) {
      ++totals_.num_faults;
      return;
    }
    message.due = now_ + std::chrono::microseconds(Draw(Chance(10) ? 8'000'000 : 100'000));
    if (Chance(5)) messages_.push_back(message);  // the network delivers it twice
    messages_.push_back(std::move(message));
  }
  void Hear(const Message& message) {
    for (Session& session : sessions_) {
      if (!session.asks || session.asks->id != message.turn.id) continue;
      session.asks.reset();
      if (*message.outcome != Outcome::kStored) return Forget(session);
      session.last_id = message.turn.id;
      for (const store::meta::TurnItem& item : message.turn.items) {
        Tokens tokens;
        Append(item.payload, tokens);
        session.num_tokens += tokens.size();
      }
      return;
    }
  }

  // --- the gateway ---

  void Reply(const store::meta::Turn& turn, Outcome outcome) {
    Carry({.due = {}, .turn = turn, .outcome = outcome});
  }

  // Returns nullopt if the turn has been answered or needs no answer.
  std::optional<Asked> Take(const store::meta::Turn& turn) {
    if (asked_.contains(turn.id)) return std::nullopt;  // a repeat, while the first one is in work
    if (const auto stored = turns_->Get(turn.tenant, turn.id)) {
      ++totals_.num_repeated;
      Reply(*stored, Outcome::kStored);
      return std::nullopt;
    }
    Asked asked{.id = turn.id, .tenant = turn.tenant, .prompt = {}, .num_tokens = 0};
    if (!turn.parent.empty()) {
      const auto chain = turns_->Chain({.tenant = turn.tenant, .id = turn.parent});
      if (!chain) {
        EXPECT_TRUE(MayBreak(turn.parent)) << chain.error().ToString();
        Reply(turn, Outcome::kRefused);
        return std::nullopt;
      }
      CheckChain(*chain, turn.parent);
      for (const store::meta::Turn& before : *chain) {
        for (const store::meta::TurnItem& item : before.items) Append(item.payload, asked.prompt);
      }
    }
    for (const store::meta::TurnItem& item : turn.items) Append(item.payload, asked.prompt);
    asked.num_tokens = static_cast<int>(turn.tokens.output);
    asked_[turn.id] = turn;
    return asked;
  }

  void Store(store::meta::Turn turn) {
    const auto parent = known_.find(turn.parent);
    Known known{.turn = turn, .first = turn.id};
    if (parent != known_.end()) known.first = parent->second.first;
    const auto stored = turns_->Append(turn);
    const bool is_unsure = !stored && meta_.is_killed();
    if (stored || is_unsure) {
      const auto before = known_.find(turn.id);
      const bool was_known = before != known_.end();
      known.may_be_absent = is_unsure;
      // The turn was stored before, then damaged or lost, and has been sent again.
      EXPECT_TRUE(!was_known || before->second.may_be_absent) << turn.id;
      known_[turn.id] = known;
      Silence& silence = silences_[known.first];
      silence.last_us = wall_us_;
      if (stored) silence.kept_us = wall_us_;
      if (meta_.syncs) silence.synced_us = silence.kept_us;
      NoteChange(turn.id);
    }
    if (stored) {
      ++totals_.num_turns;
      return Reply(turn, Outcome::kStored);
    }
    const ErrorCode code = stored.error().code;
    if (code == ErrorCode::kInvalidArgument) {  // its record is damaged, and its id is still taken
      const auto found = known_.find(turn.id);
      EXPECT_TRUE(found != known_.end() && found->second.may_be_absent) << turn.id;
    } else if (code == ErrorCode::kNotFound) {  // the parent was deleted in the meantime
      EXPECT_TRUE(MayBreak(turn.parent)) << stored.error().ToString();
    } else {
      const bool is_small = code == ErrorCode::kTooLarge && turn_bytes_max_ < 16 * 1024;
      EXPECT_TRUE(code == ErrorCode::kIo || is_small) << stored.error().ToString();
    }
    Reply(turn, Outcome::kNotStored);
  }

  // --- what is acknowledged, and what is there ---

  void NoteChange(const std::string& id) {
    if (!meta_.syncs) unsynced_.insert(id);
  }
  bool HasExpired(const Known& known) const {
    const Silence& silence = silences_.find(known.first)->second;
    const auto silent = std::chrono::microseconds(wall_us_ - silence.kept_us);
    return silent >= retention_;
  }
  // Returns true if the turn may be missing or damaged; a small bound on bytes retires turns, too.
  bool MayBeAbsent(const Known& known) const {
    return known.may_be_absent || HasExpired(known) || turn_bytes_max_ < 16 * 1024;
  }
  bool MayBreak(const std::string& id) const {
    for (auto found = known_.find(id); found != known_.end();
         found = known_.find(found->second.turn.parent)) {
      if (MayBeAbsent(found->second)) return true;
      if (found->second.turn.parent.empty()) return false;
    }
    return true;
  }
  static void ExpectSame(const store::meta::Turn& found, const store::meta::Turn& stored) {
    EXPECT_EQ(found.id, stored.id);
    EXPECT_EQ(found.parent, stored.parent) << found.id;
    EXPECT_EQ(found.tenant, stored.tenant) << found.id;
    EXPECT_EQ(found.session, stored.session) << found.id;
    EXPECT_EQ(found.items, stored.items) << found.id << ": not what was stored";
  }
  void CheckChain(const std::vector<store::meta::Turn>& chain, const std::string& id) {
    std::string next = id;
    for (auto turn = chain.rbegin(); turn != chain.rend(); ++turn) {
      ++totals_.num_compared;
      const auto known = known_.find(next);
      ASSERT_NE(known, known_.end()) << next;
      EXPECT_TRUE(known->second.may_be_there) << next << " was deleted";
      ExpectSame(*turn, known->second.turn);
      next = turn->parent;
    }
    EXPECT_TRUE(next.empty()) << "the chain ends before its beginning";
  }
  void Check(Known& known) {
    ++totals_.num_compared;
    const auto found = turns_->Get(known.turn.tenant, known.turn.id);
    if (found) {
      EXPECT_TRUE(known.may_be_there) << known.turn.id << " is there again";
      ExpectSame(*found, known.turn);
      return;
    }
    if (found.error().code == ErrorCode::kIo) return;  // damaged, and the disk refuses the deletion
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound) << found.error().ToString();
    EXPECT_TRUE(MayBeAbsent(known)) << known.turn.id << " is lost";
    if (known.may_be_there) ++totals_.num_explained;
    known.may_be_absent = true;
  }

  // Returns some turn whose writing has begun, or null if there is none.
  Known* Any() {
    if (known_.empty()) return nullptr;
    auto at = known_.lower_bound("turn" + std::to_string(Draw(num_ids_ + 1)));
    return at == known_.end() ? &known_.begin()->second : &at->second;
  }
  // Notes how the deletion of a turn ended.
  void NoteDeleted(Known& known, bool is_done) {
    if (!is_done && !meta_.is_killed()) return;
    known.may_be_absent = true;
    known.may_be_there = known.may_be_there && !is_done;
    NoteChange(known.turn.id);
  }
  void Delete() {
    Known* const known = Any();
    if (known == nullptr) return;
    const auto deleted = turns_->Delete(known->turn.tenant, known->turn.id);
    if (!deleted && deleted.error().code == ErrorCode::kNotFound) {
      EXPECT_TRUE(MayBeAbsent(*known)) << known->turn.id << " is lost";
      return;
    }
    NoteDeleted(*known, deleted.has_value());
  }
  void Purge() {
    const Session& session = sessions_[Draw(sessions_.size())];
    const auto purged = turns_->PurgeSession(session.tenant, session.key);
    for (auto& [id, known] : known_) {
      if (known.turn.session == session.key) NoteDeleted(known, purged.has_value());
    }
  }
  void Retire() {
    if (!turns_->Retire()) return;
    for (auto& [id, known] : known_) {
      const Silence& silence = silences_.find(known.first)->second;
      if (std::chrono::microseconds(wall_us_ - silence.last_us) <= retention_) continue;
      const bool is_there = turns_->Get(known.turn.tenant, id).has_value();
      EXPECT_FALSE(is_there) << id << " is kept beyond the retention";
      NoteDeleted(known, true);
    }
  }
  // Reads and deletes a turn as another tenant, which must fail.
  void Steal() {
    const Known* const known = Any();
    if (known == nullptr) return;
    const std::string thief = known->turn.tenant == "tenant0" ? "tenant1" : "tenant0";
    EXPECT_FALSE(turns_->Get(thief, known->turn.id).has_value());
    EXPECT_FALSE(turns_->Chain({.tenant = thief, .id = known->turn.id}).has_value());
    EXPECT_FALSE(turns_->Delete(thief, known->turn.id).has_value());
    const auto page = turns_->List({.tenant = thief, .session = known->turn.session});
    EXPECT_TRUE(!page || page->turns.empty());
  }
  void Damage() {
    if (Chance(30)) {
      const Pins& pins = pin_states_.back();
      if (pins.empty()) return;
      const auto pin = std::next(pins.begin(), static_cast<int64_t>(Draw(pins.size())));
      if (meta_.Damage(store::meta::MetaTable::kPins, store::kv::EncodeKvKey(pin->second.leaf))) {
        damaged_pins_.insert(pin->first);
        once_damaged_pins_.insert(pin->first);
      }
      return;
    }
    Known* const known = Any();
    if (known == nullptr) return;
    const auto turn = turns_->Get(known->turn.tenant, known->turn.id);
    if (turn && meta_.Damage(store::meta::MetaTable::kTurns, store::meta::TurnKey(turn->order))) {
      known->may_be_absent = true;
    }
  }
  void Sync() {
    meta_.Sync();
    unsynced_.clear();
    for (auto& [id, silence] : silences_) silence.synced_us = silence.kept_us;
    once_damaged_pins_ = damaged_pins_;
    pin_states_.erase(pin_states_.begin(), pin_states_.end() - 1);
  }
  void LosePower() {
    ++totals_.num_power_losses;
    has_lost_power_ = true;
    meta_.LosePower();
    for (const std::string& id : unsynced_) {
      Known& known = known_[id];
      known.may_be_absent = true;
      known.may_be_there = true;
    }
    unsynced_.clear();
    for (auto& [id, silence] : silences_) silence.kept_us = silence.synced_us;
    damaged_pins_ = once_damaged_pins_;
  }

  // --- pins ---

  // Notes a change of the pins that returned. If `done` is false and the process has ended, it may
  // have been made.
  void NotePins(Pins after, bool done) {
    if (!done && !meta_.is_killed()) return;
    if (done) {
      pin_states_.push_back(std::move(after));
      if (meta_.syncs) pin_states_.erase(pin_states_.begin(), pin_states_.end() - 1);
    } else {
      unsure_pins_ = std::move(after);
    }
  }
  void PutPin() {
    if (meta_.is_killed()) return;
    store::meta::Pin pin;
    const uint64_t leaf = 1 + Draw(12);
    pin.tenant = "tenant" + std::to_string(leaf % 3);
    pin.leaf = {.fingerprint = {.low = 7, .high = 7}, .hash = {.low = leaf, .high = leaf}};
    pin.name = Chance(80) ? "name" + std::to_string(Draw(3)) : "";
    pin.priority = static_cast<int32_t>(Draw(3));
    pin.expires_unix = Chance(50) ? WallClock::NowUnix() + 1 + static_cast<int64_t>(Draw(900)) : 0;
    pin.tokens.assign(16, static_cast<TokenId>(leaf));
    Pins after = pin_states_.back();
    std::erase_if(after, [&](const auto& entry) {
      return !pin.name.empty() && entry.second.tenant == pin.tenant &&
             entry.second.name == pin.name;
    });
    after[pin.leaf.hash] = pin;
    const auto put = pins_->Put(pin);
    if (put) {
      ++totals_.num_pins;
      damaged_pins_.erase(pin.leaf.hash);
    } else {
      const ErrorCode code = put.error().code;
      EXPECT_TRUE(code == ErrorCode::kIo || code == ErrorCode::kTooLarge) << put.error().ToString();
    }
    NotePins(std::move(after), put.has_value());
    ComparePins();
  }
  void RemovePin() {
    const Pins& pins = pin_states_.back();
    if (pins.empty() || meta_.is_killed()) return;
    const auto pin = std::next(pins.begin(), static_cast<int64_t>(Draw(pins.size())));
    Pins after = pins;
    after.erase(pin->first);
    const auto removed = pins_->Remove(pin->first);
    const bool is_gone = !removed && removed.error().code == ErrorCode::kNotFound;
    EXPECT_TRUE(!is_gone || HasExpired(pin->second) || damaged_pins_.contains(pin->first));
    NotePins(std::move(after), removed.has_value());
    ComparePins();
  }
  void DropPins() {
    (void)pins_->DropExpired();
    ComparePins();
  }
  bool HasExpired(const store::meta::Pin& pin) const {
    return pin.expires_unix != 0 && pin.expires_unix <= wall_us_ / 1'000'000;
  }
  Pins Listed(const Pins& pins) const {
    Pins listed;
    for (const auto& [id, pin] : pins) {
      if (HasExpired(pin) || damaged_pins_.contains(id)) continue;
      listed[id] = pin;
      listed[id].created_us = 0;
    }
    return listed;
  }
  void ComparePins() {
    if (meta_.is_killed()) return;  // state in memory ended with the process
    ++totals_.num_compared;
    Pins found;
    for (store::meta::Pin& pin : pins_->List()) {
      EXPECT_TRUE(kv_.IsPinned(pin.leaf, pin.expires_unix)) << "the pin was lost";
      const BlockHash id = pin.leaf.hash;
      found[id] = std::move(pin);
    }
    const Pins listed = Listed(found);
    std::vector<const Pins*> states;
    if (unsure_pins_) states.push_back(&*unsure_pins_);
    for (const Pins& state : pin_states_) {
      if (has_lost_power_ || &state == &pin_states_.back()) states.push_back(&state);
    }
    const bool is_known =
        std::ranges::any_of(states, [&](const Pins* state) { return Listed(*state) == listed; });
    EXPECT_TRUE(is_known) << listed.size() << " pins, none of " << states.size() << " states";
    unsure_pins_.reset();
    if (has_lost_power_) pin_states_.clear();
    has_lost_power_ = false;
    pin_states_.push_back(std::move(found));
    if (meta_.syncs) pin_states_.erase(pin_states_.begin(), pin_states_.end() - 1);
  }

  const Below below_;
  const TimePoint& now_;
  store::SimulatedStore& kv_;
  SessionTotals& totals_;
  store::SimulatedMetaStore meta_;
  int64_t wall_us_ = 0;
  int loss_percent_ = 0;
  std::chrono::seconds retention_{0};
  uint64_t turn_bytes_max_ = 0;
  std::unique_ptr<store::meta::TurnStore> turns_;
  std::unique_ptr<store::meta::PinBook> pins_;
  std::vector<Session> sessions_;
  std::deque<Message> messages_;
  std::map<std::string, store::meta::Turn> asked_;
  uint64_t num_ids_ = 0;

  std::map<std::string, Known> known_;       // by turn id
  std::map<std::string, Silence> silences_;  // by a conversation's first turn
  std::set<std::string> unsynced_;           // turns changed since the last sync
  std::vector<Pins> pin_states_ = {Pins()};  // states since the last sync, the newest last
  std::optional<Pins> unsure_pins_;          // set if the process ended while writing the pins
  std::set<BlockHash> damaged_pins_;
  std::set<BlockHash> once_damaged_pins_;  // since the last sync; a power loss brings it back
  bool has_lost_power_ = false;
};

}  // namespace kvgate::engine
