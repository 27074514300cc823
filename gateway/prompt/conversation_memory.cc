#include "gateway/prompt/conversation_memory.h"

#include <algorithm>

namespace kvgate::prompt {
namespace {

// Of one conversation: an agent with its helpers has a handful at a time.
constexpr size_t kBranchesMax = 32;
constexpr size_t kAliasesMax = 8;

}  // namespace

ConversationMemory::Line ConversationMemory::Find(std::span<const Identity> keys) const {
  const std::lock_guard lock(mutex_);
  for (const Identity& key : keys) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) continue;
    const Conversation& conversation = *found->second;
    return {conversation.id, {conversation.branches.begin(), conversation.branches.end()}};
  }
  return {keys.empty() ? Identity{} : keys.front(), {}};
}

void ConversationMemory::Remember(const Commit& commit) {
  const std::lock_guard lock(mutex_);
  auto found = by_key_.find(commit.conversation);
  if (found == by_key_.end()) {
    list_.push_front({.id = commit.conversation, .branches = {}, .aliases = {}, .bytes = 0});
    found = by_key_.emplace(commit.conversation, list_.begin()).first;
  }
  list_.splice(list_.begin(), list_, found->second);
  Conversation& conversation = list_.front();
  for (const Identity& alias : commit.aliases) {
    if (conversation.aliases.size() >= kAliasesMax) break;
    if (by_key_.emplace(alias, list_.begin()).second) conversation.aliases.push_back(alias);
  }
  auto& branches = conversation.branches;
  const auto replaced = std::find(branches.begin(), branches.end(), commit.replaced);
  if (replaced != branches.end()) branches.erase(replaced);
  branches.insert(branches.begin(), commit.branch);
  if (branches.size() > kBranchesMax) branches.pop_back();
  Measure(conversation);
  EvictLocked();
}

void ConversationMemory::Withdraw(const Identity& conversation,
                                  const std::shared_ptr<Branch>& branch,
                                  const std::shared_ptr<const Branch>& before) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(conversation);
  if (found == by_key_.end()) return;
  auto& branches = found->second->branches;
  const auto place = std::find(branches.begin(), branches.end(), branch);
  if (place == branches.end()) return;
  if (before && std::find(branches.begin(), branches.end(), before) == branches.end()) {
    *place = std::const_pointer_cast<Branch>(before);
  } else {
    branches.erase(place);
  }
  if (branches.empty()) {
    EraseLocked(found->second);
  } else {
    Measure(*found->second);
  }
}

void ConversationMemory::Finish(const std::shared_ptr<Branch>& branch,
                                const std::optional<ledger::TokenUsage>& usage) {
  const std::lock_guard lock(mutex_);
  if (branch->finished) return;
  branch->finished = true;
  if (!usage) return;
  branch->request.input_tokens = usage->input_tokens();
  branch->request.cached_tokens = usage->cache_read_tokens;
  branch->request.written_tokens = usage->cache_write_tokens + usage->cache_write_1h_tokens;
}

const SentRequest& ConversationMemory::RequestOf(const std::shared_ptr<const Branch>& branch,
                                                 std::optional<SentRequest>& copy) const {
  const std::lock_guard lock(mutex_);
  if (branch->finished) return branch->request;
  copy = branch->request;
  return *copy;
}

size_t ConversationMemory::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ConversationMemory::Measure(Conversation& conversation) {
  size_t bytes = sizeof(Conversation);
  for (const auto& branch : conversation.branches) bytes += branch->bytes;
  bytes_ += bytes - conversation.bytes;
  conversation.bytes = bytes;
}

void ConversationMemory::EvictLocked() {
  while (bytes_ > bytes_max_ && !list_.empty()) EraseLocked(std::prev(list_.end()));
}

void ConversationMemory::EraseLocked(List::iterator conversation) {
  bytes_ -= conversation->bytes;
  for (const Identity& alias : conversation->aliases) by_key_.erase(alias);
  by_key_.erase(conversation->id);
  list_.erase(conversation);
}

}  // namespace kvgate::prompt
