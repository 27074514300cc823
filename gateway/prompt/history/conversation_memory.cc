#include "gateway/prompt/history/conversation_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

// Bounds per conversation; an agent with its helpers has a handful of branches at a time.
constexpr size_t kBranchesMax = 48;
// Of the branches that a line went on from, the newest are all kept: a helper of so many calls
// leaves its caller exactly where it waits.
constexpr uint32_t kAgesKept = 16;
// Eight keys of its own, as many as a store keeps (gateway/service/branches/branch_index), and its
// agent's: a conversation has to be found under all keys under which it was recalled.
constexpr size_t kAliasesMax = 10;
// The newest conversations that are found under one alias, such as one first turn.
constexpr size_t kConversationsMax = 32;

}  // namespace

ConversationMemory::Branches ConversationMemory::Find(std::span<const Identity> keys) const {
  Branches branches;
  std::vector<const Conversation*> taken;
  const std::lock_guard lock(mutex_);
  const auto take = [&](const Conversation& conversation) {
    if (std::find(taken.begin(), taken.end(), &conversation) != taken.end()) return;
    taken.push_back(&conversation);
    for (const Entry& entry : conversation.branches) branches.push_back(entry.branch);
  };
  for (const Identity& key : keys) {
    if (const auto found = by_id_.find(key); found != by_id_.end()) take(*found->second);
    const auto found = by_alias_.find(key);
    if (found == by_alias_.end()) continue;
    for (const List::iterator& conversation : found->second) take(*conversation);
  }
  return branches;
}

void ConversationMemory::Remember(const Commit& commit) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  auto found = by_id_.find(commit.conversation);
  if (found == by_id_.end()) {
    // Everything that may throw for lack of memory runs first, so that a failure changes nothing.
    List added;
    added.push_front(
        {.tenant = commit.tenant, .id = commit.conversation, .branches = {}, .aliases = {}});
    added.front().aliases.reserve(kAliasesMax);
    Order place{added.begin()};
    added.front().place = place.begin();
    Order& order = tenants_[commit.tenant].conversations;
    found = by_id_.emplace(commit.conversation, added.begin()).first;
    list_.splice(list_.begin(), added);
    order.splice(order.begin(), place);
    const size_t bytes = std::exchange(list_.front().bytes, 0);
    Count(list_.front(), static_cast<int64_t>(bytes));
  }
  const List::iterator place = found->second;
  Conversation& conversation = *place;
  list_.splice(list_.begin(), list_, place);
  Order& order = tenants_[conversation.tenant].conversations;
  order.splice(order.begin(), order, conversation.place);
  for (const Identity& alias : commit.aliases) AddAliasLocked(place, alias);
  AddLocked(conversation, commit, dropped);
  AddKinLocked(place, *commit.branch);
  while (bytes_ > bytes_max_) EraseLocked(NextToGoLocked(), dropped);
}

void ConversationMemory::Restore(const Restored& restored) {
  std::unordered_map<uint64_t, std::shared_ptr<const Branch>> by_token;
  for (const auto& branch : Find(restored.keys)) by_token.emplace(branch->token, branch);
  for (auto branch = restored.branches.rbegin(); branch != restored.branches.rend(); ++branch) {
    if (!by_token.emplace((*branch)->token, *branch).second) continue;
    const auto before = by_token.find((*branch)->before);
    Remember({.tenant = restored.tenant,
              .conversation = restored.keys.front(),
              .aliases = restored.keys.subspan(1),
              .branch = *branch,
              .replaced = before == by_token.end() ? nullptr : before->second});
  }
  // Of a conversation whose branches are all known, those who keep it may know more names.
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(restored.keys.front());
  if (found == by_id_.end()) return;
  for (const Identity& alias : restored.keys.subspan(1)) AddAliasLocked(found->second, alias);
}

// The oldest one that a line has gone on from. The newest of each line stay, because a store that
// has one which is not known here could not tell that nothing of the conversation is lost.
size_t ConversationMemory::NextToGo(const std::vector<Entry>& branches) {
  const auto old = std::find_if(branches.rbegin(), branches.rend(),
                                [](const Entry& entry) { return entry.age > 0; });
  return old == branches.rend() ? branches.size() - 1
                                : static_cast<size_t>(branches.rend() - old) - 1;
}

void ConversationMemory::AddLocked(Conversation& conversation, const Commit& commit,
                                   Dropped& dropped) {
  auto& branches = conversation.branches;
  branches.reserve(kBranchesMax + 1);
  const auto before = std::find_if(branches.begin(), branches.end(), [&](const Entry& entry) {
    return commit.replaced && entry.branch == commit.replaced;
  });
  const bool goes_on = before != branches.end() && before->age == 0;
  const uint64_t line = goes_on ? before->line : ++conversation.num_lines;
  if (goes_on) {
    const Branch& branch = *before->branch;
    const size_t bytes = sizeof(Branch) +
                         branch.request.segments.NumBytesBeside(commit.branch->request.segments) +
                         branch.forms.NumBytesBeside(commit.branch->forms);
    Count(conversation, static_cast<int64_t>(bytes) - static_cast<int64_t>(before->bytes));
    before->bytes = bytes;
    const std::shared_ptr<const FirstTurn> turn = branch.first_turn;
    AgeLocked(conversation, line, dropped);
    if (turn) DropKinLocked(conversation, *turn);
  }
  if (branches.size() == kBranchesMax) DropLocked(conversation, NextToGo(branches), dropped);
  branches.insert(branches.begin(),
                  {.branch = commit.branch, .line = line, .age = 0, .bytes = commit.branch->bytes});
  Count(conversation, static_cast<int64_t>(commit.branch->bytes));
}

void ConversationMemory::AgeLocked(Conversation& conversation, uint64_t line, Dropped& dropped) {
  auto& branches = conversation.branches;
  for (Entry& entry : branches) entry.age += entry.line == line ? 1 : 0;
  // Of two old ones whose ages have the same highest bit, the older one stands for both.
  for (size_t i = 0; i < branches.size();) {
    const bool is_stood_for =
        std::any_of(branches.begin(), branches.end(), [&](const Entry& other) {
          return other.line == line && branches[i].line == line && branches[i].age > kAgesKept &&
                 other.age > branches[i].age &&
                 std::bit_width(other.age) == std::bit_width(branches[i].age);
        });
    if (is_stood_for) {
      DropLocked(conversation, i, dropped);
    } else {
      ++i;
    }
  }
}

void ConversationMemory::DropLocked(Conversation& conversation, size_t index, Dropped& dropped) {
  Entry& entry = conversation.branches[index];
  Count(conversation, -static_cast<int64_t>(entry.bytes));
  const std::shared_ptr<const FirstTurn> turn = entry.branch->first_turn;
  dropped.push_back(std::move(entry.branch));
  conversation.branches.erase(conversation.branches.begin() + static_cast<ptrdiff_t>(index));
  if (turn) DropKinLocked(conversation, *turn);
}

void ConversationMemory::AddKinLocked(List::iterator conversation, const Branch& branch) {
  if (!branch.first_turn) return;
  for (const Identity& key : branch.first_turn->kin) AddAliasLocked(conversation, key);
}

// The agent's keys are those of first requests only.
void ConversationMemory::DropKinLocked(Conversation& conversation, const FirstTurn& turn) {
  for (const Identity& key : turn.kin) {
    const bool is_others = std::any_of(
        conversation.branches.begin(), conversation.branches.end(), [&](const Entry& other) {
          const FirstTurn* its = other.age == 0 ? other.branch->first_turn.get() : nullptr;
          return its != nullptr &&
                 std::find(its->kin.begin(), its->kin.end(), key) != its->kin.end();
        });
    if (is_others || std::erase(conversation.aliases, key) == 0) continue;
    DropAliasLocked(by_id_.find(conversation.id)->second, key);
  }
}

void ConversationMemory::Withdraw(const Identity& conversation,
                                  const std::shared_ptr<Branch>& branch,
                                  const std::shared_ptr<const Branch>& before) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(conversation);
  if (found == by_id_.end()) return;
  Conversation& own = *found->second;
  auto& branches = own.branches;
  const auto find = [&](const std::shared_ptr<const Branch>& one) {
    return std::find_if(branches.begin(), branches.end(),
                        [&](const Entry& entry) { return entry.branch == one; });
  };
  const auto place = find(branch);
  if (place == branches.end()) return;
  const uint64_t line = place->line;
  DropLocked(own, static_cast<size_t>(place - branches.begin()), dropped);
  const auto first = before ? find(before) : branches.end();
  if (before && first == branches.end()) {
    branches.insert(branches.begin(), {.branch = std::const_pointer_cast<Branch>(before),
                                       .line = line,
                                       .age = 0,
                                       .bytes = before->bytes});
    Count(own, static_cast<int64_t>(before->bytes));
  } else if (first != branches.end() && first->line == line) {
    Count(own, static_cast<int64_t>(before->bytes) - static_cast<int64_t>(first->bytes));
    first->bytes = before->bytes;
    first->age = 0;
  }
  if (before) AddKinLocked(found->second, *before);
  if (branches.empty()) EraseLocked(found->second, dropped);
}

void ConversationMemory::Finish(const std::shared_ptr<Branch>& branch,
                                const std::optional<ledger::reply::TokenUsage>& usage) {
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

void ConversationMemory::Count(Conversation& conversation, int64_t bytes) {
  conversation.bytes += static_cast<size_t>(bytes);
  bytes_ += static_cast<size_t>(bytes);
  Tenant& tenant = tenants_[conversation.tenant];
  tenant.bytes += static_cast<size_t>(bytes);
  if (tenant.bytes > bytes_max_ / 2) largest_ = conversation.tenant;
}

ConversationMemory::List::iterator ConversationMemory::NextToGoLocked() {
  const auto largest = tenants_.find(largest_);
  if (largest != tenants_.end() && largest->second.bytes > bytes_max_ / 2) {
    return largest->second.conversations.back();
  }
  return std::prev(list_.end());
}

void ConversationMemory::EraseLocked(List::iterator conversation, Dropped& dropped) {
  for (Entry& entry : conversation->branches) dropped.push_back(std::move(entry.branch));
  Count(*conversation, -static_cast<int64_t>(conversation->bytes));
  const auto tenant = tenants_.find(conversation->tenant);
  tenant->second.conversations.erase(conversation->place);
  if (tenant->second.conversations.empty()) tenants_.erase(tenant);
  for (const Identity& alias : conversation->aliases) DropAliasLocked(conversation, alias);
  by_id_.erase(conversation->id);
  list_.erase(conversation);
}

void ConversationMemory::AddAliasLocked(List::iterator conversation, const Identity& alias) {
  std::vector<Identity>& aliases = conversation->aliases;
  const auto own = std::find(aliases.begin(), aliases.end(), alias);
  if (own != aliases.end()) {
    std::rotate(own, own + 1, aliases.end());  // those that are used stay
    std::vector<List::iterator>& known = by_alias_[alias];
    const auto at = std::find(known.begin(), known.end(), conversation);
    std::rotate(known.begin(), at, at + 1);
    return;
  }
  if (aliases.size() >= kAliasesMax) {
    DropAliasLocked(conversation, aliases.front());
    aliases.erase(aliases.begin());
  }
  std::vector<List::iterator>& known = by_alias_[alias];
  if (known.size() >= kConversationsMax) {
    std::erase(known.back()->aliases, alias);
    known.pop_back();
  }
  known.insert(known.begin(), conversation);
  aliases.push_back(alias);
}

void ConversationMemory::DropAliasLocked(List::iterator conversation, const Identity& alias) {
  const auto found = by_alias_.find(alias);
  std::erase(found->second, conversation);
  if (found->second.empty()) by_alias_.erase(found);
}

void AddUnknown(const std::vector<std::shared_ptr<Branch>>& read,
                ConversationMemory::Branches& branches) {
  for (const std::shared_ptr<Branch>& branch : read) {
    const bool is_known = std::any_of(branches.begin(), branches.end(), [&](const auto& other) {
      return other->token == branch->token;
    });
    if (!is_known) branches.push_back(branch);
  }
}

}  // namespace kvgate::prompt::history
