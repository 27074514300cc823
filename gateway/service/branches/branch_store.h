// BranchStore keeps on disk what each conversation's requests have sent, so that after a restart,
// or when memory had no room, the next request goes out as an extension of it. For a request it is
// used in this order: if Prepare asks for a recall, Recall reads branches; Stage makes what the
// request adds into a Write; Commit stores that before the request goes out; if it is not on disk
// in time, GoOut counts the state as lost, and the request goes out all the same.
//
// Everything is sealed (store/FORMAT.md, "prefixes") and bounded in bytes and age, as other prompt
// text at rest. What is dropped before its age, or found damaged, leaves a mark without text: the
// conversation counts as lost. While writes fail, CanKeep is false, so that new conversations go
// out as received.
//
// Thread-safe. Commit and Recall wait for the disk; nothing else does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gateway/metrics/registry.h"
#include "gateway/prompt/history/past.h"
#include "gateway/service/branches/branch_format.h"
#include "gateway/service/branches/branch_index.h"
#include "gateway/service/branches/branch_reader.h"
#include "store/meta/meta_store.h"

namespace kvgate::service::branches {

class BranchStore final : public prompt::history::Past {
 public:
  struct Options {
    store::meta::MetaStore& meta;  // must outlive the store
    // False: nothing is kept, and what was kept is deleted.
    bool enabled = true;
    std::chrono::seconds retention{7 * 86'400};
    uint64_t bytes_max = uint64_t{48} << 20;
    double tenant_share = 0.5;  // who has more of bytes_max makes room first
    std::chrono::milliseconds interval{1'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  // Reads what there is, without the bytes that rows refer to.
  explicit BranchStore(const Options& options);
  ~BranchStore() override;
  BranchStore(const BranchStore&) = delete;
  BranchStore& operator=(const BranchStore&) = delete;

  Standing Find(const Question& question) const override;
  bool CanKeep() const override;

  // What one request adds. It owns everything that Commit needs. While the disk refuses writes or
  // does not answer, `patience` is zero: the write is tried, but nobody waits for it.
  struct Write {
    std::chrono::milliseconds patience{20};
    struct Staged;
    std::shared_ptr<Staged> staged;
  };
  struct StageArgs {
    std::string_view tenant;
    std::shared_ptr<const prompt::history::Branch> branch;
    std::shared_ptr<const prompt::history::Branch> before;  // that it continues whole; may be null
    std::vector<prompt::parse::Identity> keys;              // of the conversation, its own first
    std::vector<uint64_t> instead = {};                     // as prompt::Prepared::instead
  };
  // Returns nullopt if it adds nothing.
  std::optional<Write> Stage(const StageArgs& args);
  // Waits for the disk. If it fails, the state counts as lost.
  void Commit(const Write& write);
  // Call it when the request goes out. Counts the state as lost if it is not on disk.
  void GoOut(const Write& write);
  // The request of the token was not sent after all; its branch goes on from `before` (0: none).
  void Withdraw(uint64_t token, uint64_t before);

  using Recalled = branches::Recalled;
  // Waits for the disk. Reads the branches of all conversations that are found under any of the
  // keys; one that cannot be read counts as lost.
  std::vector<Recalled> Recall(std::span<const prompt::parse::Identity> keys);
  // Waits for the disk. Reads the same for who only looks: nothing is counted, dropped or logged.
  std::vector<std::shared_ptr<prompt::history::Branch>> Peek(
      std::span<const prompt::parse::Identity> keys) const;

  struct Stats {
    uint64_t num_branches = 0;
    uint64_t bytes = 0;
    uint64_t num_lost = 0;  // states that could not be written in time, or read
    uint64_t num_recalled = 0;
  };
  Stats stats() const;
  void Collect(metrics::TextWriter& writer) const;

 private:
  struct Loading;
  struct Placed;
  void Load();
  void Forget();
  void LoadRow(std::string_view key, std::string_view value, Loading& loading);
  void EndBranch(Loading& loading);
  void LoadContents(Loading& loading);
  void LoadMarks();
  void Run();
  void WriteCollected();
  std::vector<Placed> PlacesOf(std::span<const prompt::parse::Identity> keys) const;
  Result<BranchLine> Read(const Placed& placed) const;
  Result<std::vector<std::string>> ReadRows(const Placed& placed) const;
  Result<void> ReadTexts(const Placed& placed, std::span<const prompt::parse::Identity> ids,
                         KeptTexts& texts) const;
  void LoseLocked(std::string_view why);
  int64_t NowUs() const;
  int64_t OldestUs() const;

  const Options options_;
  mutable std::mutex mutex_;
  BranchIndex index_;
  // Since when any conversation may be one whose state is lost; 0: none is.
  int64_t gap_us_ = 0;
  std::vector<store::meta::MetaWrite> unwritten_;  // collected, and refused by the disk
  Stats stats_;
  bool refuses_ = false;  // the last write failed or was late
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;  // declared last, so that it starts when all other members exist
};

}  // namespace kvgate::service::branches
