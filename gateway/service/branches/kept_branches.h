// KeptBranches: what conversations have sent, as it is kept on this gateway's disk and told to
// others, for who prepares their next requests. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "gateway/service/branches/branch_store.h"
#include "gateway/service/branches/shared_branches.h"

namespace kvgate::service::branches {

class KeptBranches {
 public:
  // Both outlive it, and `shared` stands in front of `here`. Null: nothing is kept; nobody is told.
  KeptBranches(BranchStore* here, SharedBranches* shared) : here_(here), shared_(shared) {}

  bool is_kept() const { return here_ != nullptr; }
  // Null if nothing is kept.
  const prompt::history::Past* past() const;

  // Tells others what goes out. Returns what has to be on disk before; nullopt: nothing.
  std::optional<BranchStore::Write> Keep(std::string_view tenant,
                                         const prompt::Prepared& prepared) const;
  // It was not sent after all.
  void Withdraw(std::string_view tenant, const prompt::Prepared& prepared) const;

  struct Asked {
    std::string_view tenant;
    std::span<const prompt::parse::Identity> keys;  // Prepared::recall
    std::span<const uint64_t> known;                // Prepared::known
  };
  // These wait for the disk, then for the shared store. REQUIRES: is_kept().
  using Restore = std::function<void(const Recalled&)>;
  void Recall(const Asked& asked, const Restore& restore) const;
  // For who only looks: nothing is counted, dropped or logged. Newest first.
  std::vector<std::shared_ptr<prompt::history::Branch>> Peek(const Asked& asked) const;

 private:
  BranchStore* const here_;
  SharedBranches* const shared_;
};

}  // namespace kvgate::service::branches
