#include "kernels/cuda/memory/kv_copies.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_backend.h"

namespace kvgate::kernels::cuda::memory {
namespace {

constexpr KvShape kShape = {.num_layers = 2, .num_kv_heads = 2, .head_dim = 64};

// Copies through the backend, as tiers do. A stream of the emulator runs commands at once, so this
// tests the destination of the bytes and the tickets, not the overlap.
class KvCopiesTest : public testing::Test {
 protected:
  KvCopiesTest()
      : backend_(*MakeCudaBackend({})),
        arena_(*backend_->AllocateKv(kShape, 8)),
        host_(*backend_->AllocateHost(8 * arena_->block_bytes())) {}

  std::byte* Slot(uint32_t slot) { return host_->data() + slot * arena_->block_bytes(); }
  std::vector<KvBlockCopy> Copies(uint32_t first_block, uint32_t first_slot, uint32_t count) {
    std::vector<KvBlockCopy> copies;
    for (uint32_t i = 0; i < count; ++i) {
      copies.push_back({.block = BlockId{first_block + i}, .host = Slot(first_slot + i)});
    }
    return copies;
  }
  void Fill(uint32_t block, uint8_t byte) {
    const std::vector<std::byte> bytes(arena_->block_bytes(), std::byte{byte});
    backend_->WriteKvBlock(*arena_, BlockId{block}, bytes);
  }
  bool Holds(uint32_t block, uint8_t byte) {
    std::vector<std::byte> bytes(arena_->block_bytes());
    backend_->ReadKvBlock(*arena_, BlockId{block}, bytes);
    return bytes == std::vector<std::byte>(arena_->block_bytes(), std::byte{byte});
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<KvArena> arena_;
  std::unique_ptr<HostBuffer> host_;
};

TEST_F(KvCopiesTest, BlocksGoOutAndComeBackElsewhere) {
  for (uint32_t block = 0; block < 4; ++block) Fill(block, static_cast<uint8_t>(block + 1));
  const uint64_t out = backend_->ReadKvBlocks(*arena_, Copies(0, 2, 4));
  const uint64_t in = backend_->WriteKvBlocks(*arena_, Copies(4, 2, 4));
  EXPECT_GT(out, 0u);
  EXPECT_GT(in, out);
  backend_->WaitForCopy(in);
  EXPECT_TRUE(backend_->IsCopied(in));
  EXPECT_TRUE(backend_->IsCopied(out));
  for (uint32_t block = 0; block < 4; ++block) {
    EXPECT_TRUE(Holds(4 + block, static_cast<uint8_t>(block + 1))) << block;
  }
}

TEST_F(KvCopiesTest, OldAndUnknownTicketsAreDone) {
  EXPECT_TRUE(backend_->IsCopied(0));
  EXPECT_EQ(backend_->ReadKvBlocks(*arena_, {}), 0u);
  const uint64_t first = backend_->ReadKvBlocks(*arena_, Copies(0, 0, 1));
  backend_->WaitForCopy(first);
  for (int i = 0; i < 20; ++i)
    backend_->WaitForCopy(backend_->ReadKvBlocks(*arena_, Copies(1, 1, 3)));
  EXPECT_TRUE(backend_->IsCopied(first));
  backend_->WaitForCopy(first);
}

TEST_F(KvCopiesTest, AnotherThreadsSingleCopyComesAfter) {
  Fill(0, 5);
  backend_->ReadKvBlocks(*arena_, Copies(0, 0, 1));
  std::thread([&] { Fill(0, 9); }).join();
  const uint64_t in = backend_->WriteKvBlocks(*arena_, Copies(3, 0, 1));
  backend_->WaitForCopy(in);
  EXPECT_TRUE(Holds(3, 5));
  EXPECT_TRUE(Holds(0, 9));
}

TEST_F(KvCopiesTest, TheBackendKnowsItsMemory) {
  const BackendMemory before = backend_->Memory();
  EXPECT_GT(before.bytes_total, 0u);
  const auto more = *backend_->AllocateKv(kShape, 16);
  EXPECT_LE(backend_->Memory().bytes_free, before.bytes_free - 16 * arena_->block_bytes());
}

}  // namespace
}  // namespace kvgate::kernels::cuda::memory
