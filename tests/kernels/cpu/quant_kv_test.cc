#include "kernels/cpu/quant_kv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace kvgate::kernels::cpu {
namespace {

constexpr std::byte kUntouched{0xa5};

// A token whose K and V are constant over all dimensions.
struct Token {
  std::vector<float> k = std::vector<float>(64, 1.0f);
  std::vector<float> v = std::vector<float>(64, -2.0f);
};

class QuantKvTest : public testing::TestWithParam<DType> {
 protected:
  const KvShape shape_{.num_layers = 2, .num_kv_heads = 2, .head_dim = 64, .dtype = GetParam()};
  const size_t head_bytes_ = shape_.block_bytes() / 4;
};

// Threads store tokens of one block at the same time, so no byte may belong to two tokens.
TEST_P(QuantKvTest, EveryByteOfAHeadIsOfOneToken) {
  const Token token;
  std::vector<int> num_writers(head_bytes_, 0);
  for (int slot = 0; slot < kKvBlockTokens; ++slot) {
    // A byte that is equal after both fillings has been written.
    std::vector<std::byte> head(head_bytes_, kUntouched);
    std::vector<std::byte> other(head_bytes_, ~kUntouched);
    StoreQuantToken(shape_, token.k.data(), token.v.data(), slot, head.data());
    StoreQuantToken(shape_, token.k.data(), token.v.data(), slot, other.data());
    for (size_t i = 0; i < head_bytes_; ++i) num_writers[i] += head[i] == other[i] ? 1 : 0;
  }
  EXPECT_EQ(num_writers, std::vector<int>(head_bytes_, 1));
}

TEST_P(QuantKvTest, CopyingLeavesTheOtherTokensOfEveryHeadAlone) {
  const Token token;
  std::vector<std::byte> from(shape_.block_bytes(), std::byte{0});
  for (size_t head = 0; head < 4; ++head) {
    for (int slot = 0; slot < kKvBlockTokens; ++slot) {
      StoreQuantToken(shape_, token.k.data(), token.v.data(), slot,
                      from.data() + head * head_bytes_);
    }
  }
  std::vector<std::byte> to(from.size(), kUntouched);
  CopyQuantTokens(shape_, from.data(), to.data(), 5);
  std::vector<std::byte> want(from.size(), kUntouched);
  for (size_t head = 0; head < 4; ++head) {
    for (int slot = 0; slot < 5; ++slot) {
      StoreQuantToken(shape_, token.k.data(), token.v.data(), slot,
                      want.data() + head * head_bytes_);
    }
  }
  EXPECT_EQ(to, want);
  CopyQuantTokens(shape_, from.data(), to.data(), kKvBlockTokens);
  EXPECT_EQ(to, from);
}

INSTANTIATE_TEST_SUITE_P(On, QuantKvTest, testing::Values(DType::kQ8_0, DType::kQ4_0),
                         [](const testing::TestParamInfo<DType>& tested) {
                           return std::string(DTypeName(tested.param));
                         });

}  // namespace
}  // namespace kvgate::kernels::cpu
