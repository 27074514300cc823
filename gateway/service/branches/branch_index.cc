#include "gateway/service/branches/branch_index.h"

#include <algorithm>

#include "base/digest.h"
#include "store/file/byte_codec.h"

namespace kvgate::service::branches {

using prompt::parse::Identity;
using store::file::AppendBigEndian;

namespace {

constexpr char kRow = 'B';
constexpr char kContent = 'C';
constexpr char kMark = 'L';

std::string MarkKey(const std::string& name) { return kMark + name; }

bool IsNewer(const std::shared_ptr<StoredBranch>& a, const std::shared_ptr<StoredBranch>& b) {
  return a->time_us > b->time_us;
}

// The branch is no longer found under the key.
void ForgetKey(std::unordered_map<Identity, std::vector<uint64_t>>& by_key, const Identity& key,
               uint64_t number) {
  const auto numbers = by_key.find(key);
  if (numbers == by_key.end()) return;
  std::erase(numbers->second, number);
  if (numbers->second.empty()) by_key.erase(numbers);
}

}  // namespace

std::string BranchName(const Keyring& ring, std::string_view purpose, std::string_view of) {
  const Keyring::Secret secret = ring.Derive(purpose, of);
  return {reinterpret_cast<const char*>(secret.data()), kBranchNameBytes};
}
std::string BranchName(const Keyring& ring, std::string_view purpose, const Identity& of) {
  std::string bytes;
  store::file::AppendValue(bytes, of.low);
  store::file::AppendValue(bytes, of.high);
  return BranchName(ring, purpose, bytes);
}

std::string BranchRowPrefix(const StoredBranch& branch) {
  std::string key = kRow + branch.tenant;
  AppendBigEndian(key, branch.number);
  return key;
}
std::string BranchRowKey(const StoredBranch& branch, uint64_t row) {
  std::string key = BranchRowPrefix(branch);
  AppendBigEndian(key, row);
  return key;
}

// --- Branches

void BranchIndex::Add(const std::shared_ptr<StoredBranch>& branch) {
  branches_[branch->number] = branch;
  heads_[branch->token] = branch;
  by_time_.emplace(branch->time_us, branch->number);
  tenants_[branch->tenant].branches.emplace(branch->time_us, branch->number);
  for (const Identity& key : branch->keys) by_key_[key].push_back(branch->number);
  for (const Identity& key : branch->kin) by_key_[key].push_back(branch->number);
  const std::vector<std::shared_ptr<StoredBranch>> all = BranchesOf(branch->keys.front());
  if (all.size() > options_.branches_max) Drop(all.back(), true);
}

std::shared_ptr<StoredBranch> BranchIndex::FindHead(uint64_t token) const {
  const auto found = heads_.find(token);
  return found == heads_.end() ? nullptr : found->second;
}

void BranchIndex::MoveHead(const std::shared_ptr<StoredBranch>& branch, uint64_t token) {
  if (branch->is_dropped) return;
  heads_.erase(branch->token);
  branch->token = token;
  heads_[token] = branch;
}

bool BranchIndex::AddKeys(StoredBranch& branch, std::span<const Identity> keys,
                          std::vector<Identity> kin) {
  bool is_any_new = false;
  for (const Identity& key : keys) {
    if (branch.is_dropped) break;
    if (std::find(branch.keys.begin(), branch.keys.end(), key) != branch.keys.end()) continue;
    if (branch.keys.size() >= options_.keys_max) {  // the oldest goes, but for its own
      ForgetKey(by_key_, branch.keys[1], branch.number);
      branch.keys.erase(branch.keys.begin() + 1);
    }
    branch.keys.push_back(key);
    by_key_[key].push_back(branch.number);
    is_any_new = true;
  }
  if (branch.is_dropped || branch.kin == kin) return is_any_new;
  for (const Identity& key : branch.kin) ForgetKey(by_key_, key, branch.number);
  for (const Identity& key : kin) by_key_[key].push_back(branch.number);
  branch.kin = std::move(kin);
  return is_any_new;
}

std::vector<std::shared_ptr<StoredBranch>> BranchIndex::BranchesOf(
    const Identity& conversation) const {
  std::vector<std::shared_ptr<StoredBranch>> found;
  const auto numbers = by_key_.find(conversation);
  if (numbers == by_key_.end()) return found;
  for (const uint64_t number : numbers->second) {
    const std::shared_ptr<StoredBranch>& branch = branches_.at(number);
    if (branch->keys.front() == conversation) found.push_back(branch);
  }
  std::sort(found.begin(), found.end(), IsNewer);
  return found;
}

std::vector<std::shared_ptr<StoredBranch>> BranchIndex::Find(std::span<const Identity> keys) const {
  std::vector<std::shared_ptr<StoredBranch>> under;
  for (const Identity& key : keys) {
    const auto numbers = by_key_.find(key);
    if (numbers == by_key_.end()) continue;
    for (const uint64_t number : numbers->second) under.push_back(branches_.at(number));
  }
  std::sort(under.begin(), under.end(), IsNewer);
  std::set<Identity> conversations;
  std::vector<std::shared_ptr<StoredBranch>> found;
  for (const std::shared_ptr<StoredBranch>& branch : under) {
    if (conversations.size() == options_.found_max) break;
    const Identity& conversation = branch->keys.front();
    if (!conversations.insert(conversation).second) continue;
    const auto branches = BranchesOf(conversation);
    found.insert(found.end(), branches.begin(), branches.end());
  }
  std::sort(found.begin(), found.end(), IsNewer);
  return found;
}

void BranchIndex::Count(StoredBranch& branch, int64_t bytes, int64_t time_us) {
  if (branch.is_dropped) return;
  branch.bytes += static_cast<uint64_t>(bytes);
  CountBytes(branch.tenant, bytes);
  ByTime& of_tenant = tenants_[branch.tenant].branches;
  by_time_.erase({branch.time_us, branch.number});
  of_tenant.erase({branch.time_us, branch.number});
  branch.time_us = std::max(branch.time_us, time_us);
  by_time_.emplace(branch.time_us, branch.number);
  of_tenant.emplace(branch.time_us, branch.number);
}

void BranchIndex::Drop(const std::shared_ptr<StoredBranch>& branch, bool is_lost) {
  if (branch->is_dropped) return;
  for (uint64_t row = branch->first_row; row < branch->next_row; ++row)
    Delete(BranchRowKey(*branch, row));
  KeepOnly(*branch, {});
  CountBytes(branch->tenant, -static_cast<int64_t>(branch->bytes));
  branch->is_dropped = true;
  by_time_.erase({branch->time_us, branch->number});
  const auto tenant = tenants_.find(branch->tenant);
  tenant->second.branches.erase({branch->time_us, branch->number});
  if (tenant->second.branches.empty() && tenant->second.bytes == 0) tenants_.erase(tenant);
  if (const auto head = heads_.find(branch->token);
      head != heads_.end() && head->second == branch) {
    heads_.erase(head);
  }
  for (const Identity& key : branch->keys) ForgetKey(by_key_, key, branch->number);
  for (const Identity& key : branch->kin) ForgetKey(by_key_, key, branch->number);
  if (is_lost) Mark(branch->keys.front());
  branches_.erase(branch->number);
}

void BranchIndex::MakeRoom(int64_t oldest_us) {
  while (!by_time_.empty() && by_time_.begin()->first < oldest_us) {
    Drop(branches_.at(by_time_.begin()->second), true);
  }
  while (bytes_ > options_.bytes_max) {
    const std::shared_ptr<StoredBranch> next = NextToGo();
    if (next == nullptr) return;
    Drop(next, true);
  }
}

std::shared_ptr<StoredBranch> BranchIndex::NextToGo() const {
  const auto share =
      static_cast<uint64_t>(static_cast<double>(options_.bytes_max) * options_.tenant_share);
  const auto largest = tenants_.find(largest_);
  if (largest != tenants_.end() && largest->second.bytes > share &&
      !largest->second.branches.empty()) {
    return branches_.at(largest->second.branches.begin()->second);
  }
  return by_time_.empty() ? nullptr : branches_.at(by_time_.begin()->second);
}

void BranchIndex::Delete(std::string key) {
  writes_.push_back({.key = std::move(key), .value = std::nullopt});
}

void BranchIndex::CountBytes(const std::string& tenant, int64_t bytes) {
  Tenant& of = tenants_[tenant];
  of.bytes += static_cast<uint64_t>(bytes);
  bytes_ += static_cast<uint64_t>(bytes);
  const double share = static_cast<double>(options_.bytes_max) * options_.tenant_share;
  if (static_cast<double>(of.bytes) > share) largest_ = tenant;
}

// --- Bytes that rows refer to

BranchIndex::Content& BranchIndex::Refer(StoredBranch& branch, const std::string& name) {
  const auto [found, is_new] = contents_.try_emplace({branch.tenant, name});
  Content& content = found->second;
  if (is_new) {
    // The number tells these bytes from the same ones whose deletion may be under way.
    content.key = kContent + branch.tenant + name;
    AppendBigEndian(content.key, RandomSeed());
  }
  if (branch.contents.insert(name).second) ++content.num_references;
  return content;
}

void BranchIndex::KeepOnly(StoredBranch& branch, const std::set<std::string>& names) {
  for (auto name = branch.contents.begin(); name != branch.contents.end();) {
    if (names.contains(*name)) {
      ++name;
      continue;
    }
    Release(branch.tenant, *name);
    name = branch.contents.erase(name);
  }
}

void BranchIndex::Release(const std::string& tenant, const std::string& name) {
  const auto found = contents_.find({tenant, name});
  if (found == contents_.end() || --found->second.num_references > 0) return;
  Delete(found->second.key);
  CountBytes(tenant, -static_cast<int64_t>(found->second.bytes));
  contents_.erase(found);
}

const BranchIndex::Content* BranchIndex::FindContent(const std::string& tenant,
                                                     const std::string& name) const {
  const auto found = contents_.find({tenant, name});
  return found == contents_.end() ? nullptr : &found->second;
}

void BranchIndex::AddContent(const std::string& tenant, const std::string& name, Content content) {
  const uint64_t bytes = content.bytes;
  std::string key = content.key;
  if (!contents_.try_emplace({tenant, name}, std::move(content)).second) {
    Delete(std::move(key));  // the same bytes were written twice
    return;
  }
  CountBytes(tenant, static_cast<int64_t>(bytes));
}

void BranchIndex::Store(const std::string& tenant, const std::string& name, uint64_t bytes) {
  const auto found = contents_.find({tenant, name});
  if (found == contents_.end()) return;
  CountBytes(tenant, static_cast<int64_t>(bytes) - static_cast<int64_t>(found->second.bytes));
  found->second.bytes = bytes;
}

void BranchIndex::DropUnreferred() {
  for (auto content = contents_.begin(); content != contents_.end();) {
    if (content->second.num_references > 0) {
      ++content;
      continue;
    }
    Delete(content->second.key);
    CountBytes(content->first.first, -static_cast<int64_t>(content->second.bytes));
    content = contents_.erase(content);
  }
}

// --- Marks

void BranchIndex::Mark(const Identity& conversation) {
  std::string name = BranchName(ring_, "branches.lost", conversation);
  if (marks_.contains(name)) return;
  writes_.push_back({.key = MarkKey(name), .value = std::string()});
  AddMark(std::move(name));
}

void BranchIndex::AddMark(std::string name) {
  if (!marks_.insert(name).second) return;
  marks_order_.push_back(std::move(name));
  if (marks_order_.size() <= options_.marks_max) return;
  Delete(MarkKey(marks_order_.front()));
  marks_.erase(marks_order_.front());
  marks_order_.pop_front();
}

bool BranchIndex::IsMarked(std::span<const Identity> keys) const {
  if (marks_.empty()) return false;
  return std::any_of(keys.begin(), keys.end(), [&](const Identity& key) {
    return marks_.contains(BranchName(ring_, "branches.lost", key));
  });
}

}  // namespace kvgate::service::branches
