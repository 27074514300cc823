#include "engine/tier/kv_group.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace kvgate::tier {

KvGroup::KvGroup(const Options& options, Parts parts, kernels::Backend& backend)
    : index_(parts.index),
      window_(options.window),
      backend_(backend),
      arena_(std::move(parts.arena)),
      host_(std::move(parts.host)),
      pool_({.num_blocks = options.num_blocks, .owner_blocks_max = options.owner_blocks_max}) {}

std::optional<std::vector<kv::BlockRef>> KvGroup::Acquire(int count, uint32_t tenant) {
  std::optional<std::vector<kv::BlockRef>> fresh =
      pool_.Acquire(static_cast<uint32_t>(count), tenant);
  if (host_ != nullptr) host_->BeginCopies();  // of the blocks evicted by Acquire
#if KVGATE_DEBUG
  if (fresh.has_value()) {
    Await(kv::IdsOf(*fresh));
    for (const kv::BlockRef& block : *fresh) Poison(block.id());
  }
#endif
  return fresh;
}

void KvGroup::Poison([[maybe_unused]] BlockId block) {
#if KVGATE_DEBUG
  backend_.PoisonKvBlock(*arena_, block);
#endif
}

void KvGroup::Copy(BlockId from, BlockId to, int num_tokens) {
  Await(std::array{from, to});
  backend_.CopyKvBlock(*arena_, from, to, num_tokens);
}

void KvGroup::Await(std::span<const BlockId> blocks) {
  if (host_ != nullptr) host_->Await(blocks);
}

uint64_t KvGroup::TicketOf(std::span<const BlockId> blocks) {
  return host_ != nullptr ? host_->TicketOf(blocks) : 0;
}

size_t FullGroup::CountInMemory(std::span<const kv::BlockKey> keys) const {
  size_t count = cache_.CountLeading(keys);
  if (host() == nullptr) return count;
  while (count < keys.size() && host()->Contains(keys[count])) ++count;
  return count;
}

bool WindowGroup::IsInMemory(const kv::BlockKey& key) const {
  return cache_.Contains(key) || (host() != nullptr && host()->Contains(key));
}

Result<KvGroups> KvGroups::Open(std::span<const KvGroup::Options> options,
                                kernels::Backend& backend) {
  KvGroups groups;
  for (const KvGroup::Options& wanted : options) {
    KvGroup::Parts parts{.index = static_cast<uint32_t>(groups.size()), .arena = {}, .host = {}};
    KVGATE_TRY(parts.arena, backend.AllocateKv(wanted.shape, wanted.num_blocks));
    if (wanted.host_bytes.has_value()) {
      KVGATE_TRY(parts.host, HostTier::Open(*wanted.host_bytes, backend, *parts.arena));
    }
    KVGATE_CHECK((parts.index == kv::kFullGroup) == (wanted.window == 0), "order of KV groups");
    std::unique_ptr<KvGroup>& group = groups.all_.emplace_back();
    if (wanted.window == 0) {
      auto full = std::make_unique<FullGroup>(wanted, std::move(parts), backend);
      groups.full_ = full.get();
      group = std::move(full);
    } else {
      auto window = std::make_unique<WindowGroup>(wanted, std::move(parts), backend);
      groups.windows_.push_back(window.get());
      group = std::move(window);
    }
    if (HostTier* const host = group->host(); host != nullptr) {
      group->cache().SetDemote([host](const kv::BlockKey& key, BlockId id, int priority) {
        host->Put(key, id, priority);
      });
    }
  }
  return groups;
}

}  // namespace kvgate::tier
