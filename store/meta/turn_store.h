// TurnStore: the durable turns of conversations, which serve a response's id, a session's key, and
// the reasoning that an agent omits from what it sends back. Each turn names the preceding one, so
// turns form trees. One tree is a conversation. Conversations are retired as a whole, the least
// recently active first, by age and above a total size. If space is scarce, a tenant above its
// share is retired first, so that nobody can push out what others keep; otherwise a tenant may use
// it all.
//
// A turn is written in one batch with all its index rows, so that a killed process leaves the whole
// turn or nothing. Payloads are checksummed: a damaged turn is logged and dropped. Tenants share
// nothing: a turn of another tenant looks like a missing one. Turns are sealed with the meta
// store's keyring and rows are named by it (turn_names.h); a turn whose secret is missing is absent
// until the secret is back.
//
// Thread-safe; writers are serialised. A thread retires old conversations. The meta store must
// outlive the store.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "store/meta/meta_store.h"
#include "store/meta/turn_check.h"
#include "store/meta/turn_format.h"

namespace kvgate::store::meta {

struct TurnPage {
  std::vector<Turn> turns;
  bool has_more = false;
};

struct TurnStats {
  bool enabled = false;
  uint64_t num_turns = 0;
  uint64_t num_conversations = 0;
  uint64_t bytes = 0;  // size of records before compression by the database
  uint64_t bytes_max = 0;
  uint64_t num_appended = 0;  // this and the following since the start
  uint64_t num_retired = 0;   // by age or size
  uint64_t num_deleted = 0;   // by Delete and Purge
  uint64_t num_damaged = 0;   // found damaged and dropped
};

class TurnStore {
 public:
  struct Options {
    MetaStore& meta;
    bool enabled = true;  // false: Append refuses; stored turns stay readable and are retired
    std::chrono::seconds retention{30 * 86'400};  // counted from a conversation's last turn
    uint64_t bytes_max = uint64_t{1} << 30;       // limit on all turns
    double tenant_share = 0.5;                    // of bytes_max per tenant, once it is scarce
    uint64_t turn_bytes_max = uint64_t{32} << 20;
    std::chrono::milliseconds retire_interval{60'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: system's clock
  };
  // Loads the stored turns' totals and retires conversations that are too old.
  static Result<std::unique_ptr<TurnStore>> Open(const Options& options);
  ~TurnStore();
  TurnStore(const TurnStore&) = delete;
  TurnStore& operator=(const TurnStore&) = delete;

  // Durable on return: against a process crash, and with store.sync against power loss. Sets
  // `order`, and `created_us` unless it is set. Returns kInvalidArgument for a bad field (named) or
  // an id that is taken; kNotFound if `parent` is missing; kTooLarge if the turn or its
  // conversation would not fit; kUnsupported if turns are switched off.
  Result<void> Append(Turn turn);
  // The same for turns of one conversation, all of them or none; each one's parent is stored, or
  // stands before it.
  Result<void> AppendAll(std::vector<Turn> turns);
  // Returns kNotFound if there is no such turn.
  Result<Turn> Get(std::string_view tenant, std::string_view id) const;

  struct ChainArgs {
    std::string_view tenant;
    std::string_view id;
    size_t turns_max = 10'000;
    uint64_t bytes_max = uint64_t{256} << 20;
    // Called with each turn, the newest first; the chain begins with the one for which it returns
    // true. Empty: with the first turn of the conversation.
    std::function<bool(const Turn&)> is_first = {};
  };
  // Returns the turns from the first one of the conversation to this one. Returns kNotFound, naming
  // the missing turn, if one was deleted or damaged, and kTooLarge instead of leaving turns out.
  Result<std::vector<Turn>> Chain(const ChainArgs& args) const;

  struct ListArgs {
    std::string_view tenant;
    std::string_view session = {};
    std::string_view conversation_of = {};  // a turn's id: its conversation instead of a session
    size_t limit = 50;                      // 1 to 1000
    uint64_t before = 0;  // `order` of the last turn of the previous page; 0 means the newest
    uint64_t bytes_max = uint64_t{64} << 20;  // a page ends once it is exceeded
  };
  // Returns the turns of a session, newest first. Returns kNotFound for a conversation of a missing
  // turn.
  Result<TurnPage> List(const ListArgs& args) const;
  // Returns the first turn of the conversation that a turn belongs to, or kNotFound.
  Result<Turn> FirstOf(std::string_view tenant, std::string_view id) const;
  // Returns the newest turn with that content, or kNotFound.
  Result<Turn> FindByContent(std::string_view tenant, const PrefixDigest& content) const;

  // Deletes the turn and frees its id; chains through it return kNotFound. kNotFound if it is
  // missing.
  Result<void> Delete(std::string_view tenant, std::string_view id);
  // All three return the number of turns deleted, which they never hold in memory together.
  Result<uint64_t> PurgeTenant(std::string_view tenant);
  Result<uint64_t> PurgeSession(std::string_view tenant, std::string_view session);
  // Deletes the whole conversation that a turn belongs to. Returns kNotFound for a missing turn.
  Result<uint64_t> PurgeConversation(std::string_view tenant, std::string_view id);
  // Retires what is too old, or above the size limit, now. Returns the number of turns.
  Result<uint64_t> Retire();

  // Waits for a running writer.
  TurnStats Stats() const;
  // Returns true if Append stores turns. Never waits.
  bool enabled() const { return options_.enabled; }
  // Returns the limit on the bytes of one turn's items; Append returns kTooLarge above it.
  uint64_t turn_bytes_max() const { return options_.turn_bytes_max; }

 private:
  class Addition;
  class Removal;
  explicit TurnStore(const Options& options) : options_(options) {}
  Result<void> Restore();
  void Run();
  void RetireOrLog();
  int64_t NowUs() const;

  TurnNames names() const { return TurnNames(options_.meta.keyring()); }
  std::string IdKey(std::string_view tenant, std::string_view id) const;
  // Returns kNotFound if there is no such turn.
  Result<TurnPlace> Find(std::string_view tenant, std::string_view id) const;
  // Returns null if the turn is missing, its secret is missing, or it was damaged and has been
  // dropped.
  Result<std::optional<TurnRecord>> Read(const TurnPlace& place) const;
  Result<TurnConversation> ReadConversation(uint64_t conversation) const;
  // Returns the turns that the rows with the prefix point to, newest first. `before` is a key or
  // empty.
  struct PlacesArgs {
    std::string prefix;
    std::string before = {};
    size_t limit = 0;
  };
  Result<std::vector<TurnPlace>> Places(const PlacesArgs& args) const;
  Result<uint64_t> Purge(const std::string& prefix);

  // The following REQUIRE mutex_ held.
  void MakeRoom();
  // Retires at most as many turns as fit into one write. Returns false if there is no more to
  // retire.
  Result<bool> RetireSome();
  struct InLine {
    std::string key;
    uint64_t conversation = 0;
  };
  Result<std::optional<InLine>> NextToRetire() const;
  uint64_t share_bytes() const;
  // Returns the tenant with the most bytes if it is above its share.
  std::optional<TurnName> TenantOverShare() const;
  Result<void> CheckShare(const TurnName& tenant, uint64_t conversation_bytes) const;
  // Returns the tenant's least recently active conversation, except the newest one of the store.
  Result<std::optional<InLine>> OldestOf(const TurnName& tenant) const;
  Result<std::optional<TurnName>> OwnerOf(uint64_t conversation) const;
  void AddBytes(const TurnName& tenant, uint64_t bytes) const;
  void TakeBytes(const TurnName& tenant, uint64_t bytes) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards the following; held by writers
  std::condition_variable wake_;
  mutable TurnTotals totals_;  // mutable because reads drop damaged turns
  struct TenantUse {
    uint64_t bytes = 0;
    uint64_t oldest_order = 0;  // conversations in line before it belong to others
  };
  mutable std::map<TurnName, TenantUse> tenants_;  // tenants that have turns
  mutable TurnStats counts_;                       // only the counts since the start
  bool stopping_ = false;
  std::thread thread_;  // last, so that it starts after the other members exist
};

}  // namespace kvgate::store::meta
