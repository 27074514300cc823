#include "gateway/service/branches/kept_branches.h"

#include <iterator>
#include <utility>

namespace kvgate::service::branches {

using prompt::history::Branch;

const prompt::history::Past* KeptBranches::past() const {
  if (shared_ != nullptr) return shared_;
  return here_;
}

std::optional<BranchStore::Write> KeptBranches::Keep(std::string_view tenant,
                                                     const prompt::Prepared& prepared) const {
  const BranchStore::StageArgs sent{.tenant = tenant,
                                    .branch = prepared.branch ? prepared.branch : prepared.lone,
                                    .before = prepared.before,
                                    .keys = prepared.keys,
                                    .instead = prepared.instead};
  if (shared_ != nullptr && sent.branch != nullptr) shared_->Tell(sent);
  if (here_ == nullptr || prepared.branch == nullptr) return std::nullopt;
  return here_->Stage(sent);
}

void KeptBranches::Withdraw(std::string_view tenant, const prompt::Prepared& prepared) const {
  const auto& sent = prepared.branch ? prepared.branch : prepared.lone;
  if (sent == nullptr) return;
  const uint64_t before = prepared.before ? prepared.before->token : 0;
  if (here_ != nullptr) here_->Withdraw(sent->token, before);
  if (shared_ != nullptr) shared_->Withdraw(tenant, sent->token, before);
}

void KeptBranches::Recall(const Asked& asked, const Restore& restore) const {
  std::vector<uint64_t> known(asked.known.begin(), asked.known.end());
  for (const Recalled& conversation : here_->Recall(asked.keys)) {
    for (const auto& branch : conversation.branches) known.push_back(branch->token);
    restore(conversation);
  }
  if (shared_ == nullptr) return;
  const SharedBranches::Asked others{.tenant = asked.tenant, .keys = asked.keys, .known = known};
  for (const Recalled& conversation : shared_->Recall(others)) restore(conversation);
}

std::vector<std::shared_ptr<Branch>> KeptBranches::Peek(const Asked& asked) const {
  std::vector<std::shared_ptr<Branch>> all = here_->Peek(asked.keys);
  if (shared_ == nullptr) return all;
  std::vector<uint64_t> known(asked.known.begin(), asked.known.end());
  for (const auto& branch : all) known.push_back(branch->token);
  std::vector<std::shared_ptr<Branch>> others =
      shared_->Peek({.tenant = asked.tenant, .keys = asked.keys, .known = known});
  std::move(others.begin(), others.end(), std::back_inserter(all));
  SortNewestFirst(all);
  return all;
}

}  // namespace kvgate::service::branches
