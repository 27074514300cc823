#include "gateway/session/retrieval/passage_indexes.h"

#include <algorithm>

namespace kvgate::session::retrieval {
namespace {

// Adds those of `recent` that the index lacks. Returns false, and may have added some, if it is not
// of their branch.
bool GoOn(PassageIndex& index, std::span<const log::LoggedTurn> recent) {
  if (recent.empty()) return false;
  // Entries that say nothing were not added, but what they follow was.
  size_t first = recent.size();
  while (first > 0 && recent[first - 1].id != index.head()) --first;
  const bool follows = first > 0 || recent.front().parent == index.head();
  if (!follows) return false;
  for (const log::LoggedTurn& turn : recent.subspan(first)) index.Add(turn);
  return true;
}

}  // namespace

std::unique_ptr<PassageIndex> PassageIndexes::Remove(const Name& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  std::unique_ptr<PassageIndex> index = std::move(found->second->index);
  bytes_ -= index->bytes();
  bytes_of_[name.first] -= index->bytes();
  kept_.erase(found->second);
  by_name_.erase(found);
  return index;
}

Result<std::unique_ptr<PassageIndex>> PassageIndexes::Take(const Session& session,
                                                           std::span<const log::LoggedTurn> recent,
                                                           const LoadBranch& load) {
  std::unique_ptr<PassageIndex> index;
  {
    const std::lock_guard lock(mutex_);
    index = Remove({std::string(session.tenant), std::string(session.key)});
  }
  if (index != nullptr && GoOn(*index, recent)) return index;
  KVGATE_TRY(const std::vector<log::LoggedTurn> branch, load());
  index = std::make_unique<PassageIndex>();
  for (const log::LoggedTurn& turn : branch) index->Add(turn);
  return index;
}

void PassageIndexes::MakeRoom(const std::string& tenant) {
  // The tenant's own go first, so that nobody pushes out what others use.
  while (bytes_of_[tenant] > bytes_max_ / 2) {
    const auto oldest = std::find_if(kept_.rbegin(), kept_.rend(),
                                     [&](const Kept& one) { return one.name.first == tenant; });
    if (oldest == kept_.rend()) break;
    const Name name = oldest->name;
    Remove(name);
  }
  while (bytes_ > bytes_max_ && !kept_.empty()) {
    const Name name = kept_.back().name;
    Remove(name);
  }
}

void PassageIndexes::Put(const Session& session, std::unique_ptr<PassageIndex> index) {
  Name name{std::string(session.tenant), std::string(session.key)};
  const std::lock_guard lock(mutex_);
  Remove(name);
  bytes_ += index->bytes();
  bytes_of_[name.first] += index->bytes();
  const std::string tenant = name.first;
  kept_.push_front({.name = name, .index = std::move(index)});
  by_name_[std::move(name)] = kept_.begin();
  MakeRoom(tenant);
  std::erase_if(bytes_of_, [](const auto& one) { return one.second == 0; });
}

void PassageIndexes::Drop(const Session& session) {
  const std::lock_guard lock(mutex_);
  Remove({std::string(session.tenant), std::string(session.key)});
}

size_t PassageIndexes::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvgate::session::retrieval
