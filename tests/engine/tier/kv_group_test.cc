#include "engine/tier/kv_group.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/reference/reference_backend.h"

namespace kvgate::tier {
namespace {

using kernels::kKvBlockTokens;

class KvGroupTest : public testing::Test {
 protected:
  static KvGroup::Options Group(int window, std::optional<uint64_t> host_bytes = {}) {
    return {.window = window,
            .shape = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 2},
            .num_blocks = 4,
            .host_bytes = host_bytes,
            .owner_blocks_max = 0};
  }
  Result<KvGroups> Open(const std::vector<KvGroup::Options>& options) {
    return KvGroups::Open(options, *backend_);
  }
  kv::BlockKey Key(TokenId token) {
    std::array<TokenId, kKvBlockTokens> tokens{};
    tokens.fill(token);
    return hasher_.Next(hasher_.Root(""), tokens);
  }

  std::unique_ptr<kernels::Backend> backend_ = kernels::reference::MakeReferenceBackend();
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
};

TEST_F(KvGroupTest, AModelWithoutWindowsHasOneGroupThatSeesEverything) {
  const KvGroups groups = *Open({Group(0)});
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_TRUE(groups.windows().empty());
  EXPECT_TRUE(groups.shares_partial_blocks());
  EXPECT_EQ(&groups[kv::kFullGroup], &groups.full());
  EXPECT_EQ(groups.full().FirstSeen(1000), 0);
}

TEST_F(KvGroupTest, GroupsKeepTheirOrderAndSeeTheirWindow) {
  const KvGroups groups = *Open({Group(0), Group(70), Group(1)});
  ASSERT_EQ(groups.windows().size(), 2u);
  for (uint32_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].index(), i);
  EXPECT_EQ(groups.windows()[0], &groups[1]);
  EXPECT_FALSE(groups.shares_partial_blocks());
  // A window of 70 tokens begins in the third block before; one of 1 sees nothing but itself.
  EXPECT_EQ(groups[1].FirstSeen(20), 17);
  EXPECT_EQ(groups[1].FirstSeen(2), 0);
  EXPECT_EQ(groups[2].FirstSeen(20), 20);
}

TEST_F(KvGroupTest, WhatThePoolOfEitherKindEvictsIsInTheHostTier) {
  const KvGroups groups = *Open({Group(0, 100'000), Group(70, 100'000)});
  std::vector<kv::BlockKey> keys;
  for (TokenId token = 0; token < 4; ++token) keys.push_back(Key(token));
  for (const auto& group : groups.all()) {
    auto blocks = group->Acquire(4, 0);
    ASSERT_TRUE(blocks.has_value());
    for (size_t i = 0; i < keys.size(); ++i) {
      const BlockId id = (*blocks)[i].id();
      if (group->index() == kv::kFullGroup) {
        const std::vector<TokenId> tokens(kKvBlockTokens, static_cast<TokenId>(i));
        groups.full().cache().InsertFull(hasher_.Root(""), keys[i], tokens, 0, id);
      } else {
        groups.windows().front()->cache().Insert(keys[i], id);
      }
    }
    kv::ReleaseLastToFirst(*blocks);
    blocks = group->Acquire(2, 0);
    EXPECT_EQ(group->pool().num_cached(), 2u);
    EXPECT_EQ(group->host()->num_cached(), 2u);
    group->pool().CheckIntegrity();
    group->cache().CheckIntegrity();
  }
  for (const kv::BlockKey& key : keys) {
    EXPECT_EQ(groups.full().CountInMemory({&key, 1}), 1u);
    EXPECT_TRUE(groups.windows().front()->IsInMemory(key));
  }
  const kv::BlockKey other = Key(9);
  EXPECT_EQ(groups.full().CountInMemory({&other, 1}), 0u);
  EXPECT_FALSE(groups.windows().front()->IsInMemory(other));
}

TEST_F(KvGroupTest, AHostTierThatHoldsNoBlockIsRefused) {
  const Result<KvGroups> groups = Open({Group(0, 10)});
  ASSERT_FALSE(groups.has_value());
  EXPECT_EQ(groups.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvgate::tier
