// TurnStore: the turns of conversations, durable: what stands behind a response's id, a session's
// key, and the reasoning that an agent leaves out of what it sends back. A turn names the one
// before it, so turns form trees; one tree is a conversation, and conversations are dropped as a
// whole, the one that has been silent longest first: by age, and beyond a number of bytes. There a
// tenant that has more than its share makes room first, so that nobody can push out what others
// keep; as long as there is room, a tenant may have all of it.
//
// A turn is written in one step with all its index rows: a process that is killed leaves the whole
// turn or nothing. Payloads are checksummed: a damaged turn is logged, dropped and absent from then
// on. Nothing is shared between tenants: another one's turn is as if it were not there. Turns are
// sealed with the meta store's keyring, and rows named by it (turn_names.h); one whose secret is
// not there is absent as long.
//
// Thread-safe; writers take turns. A thread drops what has become too old. The meta store outlives
// it.
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

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "store/meta/meta_store.h"
#include "store/turn_format.h"

namespace kvgate::store {

inline constexpr size_t kTurnTextMax = 256;    // bytes of an id, a tenant, a session, a role
inline constexpr size_t kTurnItemsMax = 4096;  // of one turn

struct TurnPage {
  std::vector<Turn> turns;
  bool has_more = false;
};

struct TurnStats {
  bool enabled = false;
  uint64_t num_turns = 0;
  uint64_t num_conversations = 0;
  uint64_t bytes = 0;  // of records, before the database compresses them
  uint64_t bytes_max = 0;
  uint64_t num_appended = 0;  // since the start, as those below
  uint64_t num_retired = 0;   // by age or bytes
  uint64_t num_deleted = 0;   // by Delete and Purge
  uint64_t num_damaged = 0;   // found damaged and dropped
};

class TurnStore {
 public:
  struct Options {
    MetaStore& meta;
    bool enabled = true;  // false: Append refuses; what is there can be read, and is retired
    std::chrono::seconds retention{30 * 86'400};  // after a conversation's last turn
    uint64_t bytes_max = uint64_t{1} << 30;       // of all turns
    double tenant_share = 0.5;                    // of that, for one tenant, once it is scarce
    uint64_t turn_bytes_max = uint64_t{32} << 20;
    std::chrono::milliseconds retire_interval{60'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  // Takes up what is there, and drops what has become too old meanwhile.
  static Result<std::unique_ptr<TurnStore>> Open(const Options& options);
  ~TurnStore();
  TurnStore(const TurnStore&) = delete;
  TurnStore& operator=(const TurnStore&) = delete;

  // Durable against a crash of the process when it returns, with store.sync against power loss.
  // `order` and `created_us` are set here. kInvalidArgument: a field, by its name; an id that is
  // taken. kNotFound: `parent` is not there. kTooLarge: the turn, or its conversation, would not
  // fit. kUnsupported: turns are switched off.
  Result<void> Append(Turn turn);
  // kNotFound.
  Result<Turn> Get(std::string_view tenant, std::string_view id) const;

  struct ChainArgs {
    std::string_view tenant;
    std::string_view id;
    size_t turns_max = 10'000;
    uint64_t bytes_max = uint64_t{256} << 20;
  };
  // From the first turn of the conversation to this one. kNotFound, which names the turn that is
  // missing: it has been deleted, or was damaged. kTooLarge: nothing is left out silently.
  Result<std::vector<Turn>> Chain(const ChainArgs& args) const;

  struct ListArgs {
    std::string_view tenant;
    std::string_view session;
    size_t limit = 50;    // 1 to 1000
    uint64_t before = 0;  // the `order` of the last turn of the page before; 0: the newest
    uint64_t bytes_max = uint64_t{64} << 20;  // a page ends beyond it
  };
  // The turns of a session, newest first.
  Result<TurnPage> List(const ListArgs& args) const;
  // The newest turn of that content. kNotFound.
  Result<Turn> FindByContent(std::string_view tenant, const PrefixDigest& content) const;

  // From then on it is not there, and chains over it are kNotFound; its id is free. kNotFound.
  Result<void> Delete(std::string_view tenant, std::string_view id);
  // How many went.
  Result<uint64_t> PurgeTenant(std::string_view tenant);
  Result<uint64_t> PurgeSession(std::string_view tenant, std::string_view session);
  // Drops what is too old, or too much, now. How many went.
  Result<uint64_t> Retire();

  // Waits for whoever writes.
  TurnStats Stats() const;
  // Whether Append keeps anything. Never waits.
  bool enabled() const { return options_.enabled; }
  // Of one turn's items; more is kTooLarge.
  uint64_t turn_bytes_max() const { return options_.turn_bytes_max; }

 private:
  class Removal;
  explicit TurnStore(const Options& options) : options_(options) {}
  Result<void> Restore();
  void Run();
  void RetireOrLog();
  int64_t NowUs() const;

  TurnNames names() const { return TurnNames(options_.meta.keyring()); }
  std::string IdKey(std::string_view tenant, std::string_view id) const;
  std::string SessionPrefix(std::string_view tenant, std::string_view session) const;
  Result<void> Check(const Turn& turn) const;
  // kNotFound.
  Result<TurnPlace> Find(std::string_view tenant, std::string_view id) const;
  // Nothing: it is not there, or was found damaged and has been dropped.
  Result<std::optional<TurnRecord>> Read(const TurnPlace& place) const;
  Result<TurnConversation> ReadConversation(uint64_t conversation) const;
  // Those that rows with the prefix lead to, the newest first; before: a key, or empty.
  struct PlacesArgs {
    std::string prefix;
    std::string before = {};
    size_t limit = 0;
  };
  Result<std::vector<TurnPlace>> Places(const PlacesArgs& args) const;
  Result<uint64_t> Purge(const std::string& prefix);

  // The mutex is held by whoever calls these.
  Result<void> AppendLocked(TurnRecord record);
  void MakeRoom();
  // One step of at most so many turns as one write takes. False: nothing is left to be dropped.
  Result<bool> RetireSome();
  struct InLine {
    std::string key;
    uint64_t conversation = 0;
  };
  Result<std::optional<InLine>> NextToRetire() const;
  uint64_t share_bytes() const;
  // Who has most, if that is more than a share.
  std::optional<TurnName> TenantOverShare() const;
  Result<void> CheckShare(const TurnName& tenant, uint64_t conversation_bytes) const;
  // Of that tenant's conversations the one that has been silent longest, but not the newest of all.
  Result<std::optional<InLine>> OldestOf(const TurnName& tenant) const;
  Result<std::optional<TurnName>> OwnerOf(uint64_t conversation) const;
  void AddBytes(const TurnName& tenant, uint64_t bytes) const;
  void TakeBytes(const TurnName& tenant, uint64_t bytes) const;

  const Options options_;
  mutable std::mutex mutex_;  // of what follows; held by whoever writes
  std::condition_variable wake_;
  mutable TurnTotals totals_;  // reading drops what is damaged
  struct TenantUse {
    uint64_t bytes = 0;
    uint64_t oldest_order = 0;  // before it no conversation in line is this tenant's
  };
  mutable std::map<TurnName, TenantUse> tenants_;  // those that have turns
  mutable TurnStats counts_;                       // those since the start
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace kvgate::store
