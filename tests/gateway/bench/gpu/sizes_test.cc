#include "gateway/bench/gpu/sizes.h"

#include <gtest/gtest.h>

#include "gateway/bench/bench_shapes.h"
#include "kernels/backend.h"

namespace kvgate::bench::gpu {
namespace {

TEST(SizesTest, TheRealOnesAreThoseThatTheFiguresAreReportedFor) {
  const Sizes sizes = FindSizes("llama-3.1-8b", false).value();
  EXPECT_EQ(sizes.shape.hidden_dim, 4096);
  EXPECT_EQ(sizes.prefixes, (std::vector<int>{1024, 4096, 20480, 65536}));
  EXPECT_EQ(sizes.agents.num_turns, 30);
  EXPECT_EQ(sizes.agents.sessions, (std::vector<int>{1, 8, 32}));
  EXPECT_FALSE(FindSizes("llama-3.1-9b", false).has_value());
}

TEST(SizesTest, EveryContextFitsTheShapeAndEveryPrefixIsWholeBlocks) {
  for (const std::string& name : SizesNames()) {
    for (const bool is_quick : {false, true}) {
      const Sizes sizes = FindSizes(name, is_quick).value();
      const AgentSizes& agents = sizes.agents;
      EXPECT_LE(agents.common_tokens + agents.first_tokens +
                    agents.num_turns * (agents.turn_tokens + agents.output_tokens),
                sizes.shape.context_length);
      for (const int prefix : sizes.prefixes) {
        EXPECT_EQ(prefix % kernels::kKvBlockTokens, 0);
        EXPECT_LE(prefix + sizes.tail_tokens, sizes.shape.context_length);
      }
      EXPECT_LE(sizes.batch, 64);
    }
  }
}

}  // namespace
}  // namespace kvgate::bench::gpu
