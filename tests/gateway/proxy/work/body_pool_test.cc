#include "gateway/proxy/work/body_pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace kvgate::proxy::work {
namespace {

TEST(BodyPoolTest, AReturnedBodysMemoryIsUsedAgainWithoutBeingCleared) {
  std::thread([] {
    std::string body(100'000, 'x');
    const char* const memory = body.data();
    ReturnBody(std::move(body));
    std::string again = TakeBody();
    EXPECT_EQ(again.data(), memory);
    EXPECT_EQ(again, std::string(100'000, 'x'));
    EXPECT_TRUE(TakeBody().capacity() < 100);
  }).join();
}

TEST(BodyPoolTest, KeepsNeitherLargeBodiesNorManyOfThem) {
  std::thread([] {
    ReturnBody(std::string(size_t{5} << 20, 'x'));
    EXPECT_LT(TakeBody().capacity(), 100u);
    for (int i = 0; i < 20; ++i) ReturnBody(std::string(size_t{1} << 20, 'x'));
    size_t kept = 0;
    while (true) {
      const std::string body = TakeBody();
      if (body.capacity() < 100) break;
      kept += body.capacity();
    }
    EXPECT_GT(kept, size_t{4} << 20);
    EXPECT_LE(kept, size_t{8} << 20);
  }).join();
}

}  // namespace
}  // namespace kvgate::proxy::work
