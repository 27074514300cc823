#include "gateway/upstream/body_digests.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"

namespace kvgate::upstream {
namespace {

constexpr size_t kPart = BodyDigests::kPartBytes;

PrefixDigest Plain(std::string_view body) { return Sha256().Update(body).Finish(); }

std::string Bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(BodyDigestsTest, EveryBodyHasItsOwnDigestWhateverCameBefore) {
  BodyDigests digests(16);  // states are evicted all the time
  std::mt19937_64 random(7);
  std::vector<std::string> bodies = {"", "x"};
  for (int i = 0; i < 300; ++i) {
    std::string body = bodies[random() % bodies.size()];
    body.resize(random() % (body.size() + 1));
    body += Bytes(random() % 4 == 0 ? kPart * (random() % 4) : random() % (3 * kPart), random());
    if (!body.empty() && random() % 3 == 0) body[random() % body.size()] ^= 1;
    ASSERT_EQ(digests.Of(random() % 2 == 0 ? "a" : "b", body), Plain(body)) << i;
    bodies.push_back(std::move(body));
  }
}

TEST(BodyDigestsTest, OnlyWhatIsNewIsHashed) {
  BodyDigests digests;
  std::string body = Bytes(10 * kPart, 1);
  digests.Of("a", body);
  EXPECT_EQ(digests.bytes_hashed(), body.size());
  uint64_t before = digests.bytes_hashed();
  body += Bytes(100, 2);
  EXPECT_EQ(digests.Of("a", body), Plain(body));
  EXPECT_EQ(digests.bytes_hashed() - before, 100u);
  before = digests.bytes_hashed();
  body[5 * kPart] ^= 1;
  EXPECT_EQ(digests.Of("a", body), Plain(body));
  EXPECT_EQ(digests.bytes_hashed() - before, 5 * kPart + 100);
}

TEST(BodyDigestsTest, TenantsShareNoStates) {
  BodyDigests digests;
  const std::string body = Bytes(4 * kPart, 1);
  digests.Of("a", body);
  EXPECT_EQ(digests.Of("b", body), Plain(body));
  EXPECT_EQ(digests.bytes_hashed(), 2 * body.size());
}

TEST(BodyDigestsTest, AHugeBodyEvictsFewOthers) {
  BodyDigests digests(BodyDigests::kStatesOfBodyMax + 8);
  const std::string small = Bytes(8 * kPart, 1);
  digests.Of("a", small);
  std::string huge = Bytes(500 * kPart, 2);
  EXPECT_EQ(digests.Of("a", huge), Plain(huge));
  uint64_t before = digests.bytes_hashed();
  digests.Of("a", small);
  EXPECT_EQ(digests.bytes_hashed(), before);
  huge += "more";
  EXPECT_EQ(digests.Of("a", huge), Plain(huge));
  EXPECT_EQ(digests.bytes_hashed() - before, 4u);
}

TEST(BodyDigestsTest, ManyThreadsGetTheRightDigests) {
  BodyDigests digests(8);
  const std::string base = Bytes(6 * kPart, 1);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        const std::string body =
            base.substr(0, kPart * static_cast<size_t>(1 + i % 6)) + std::to_string(thread * i);
        EXPECT_EQ(digests.Of("a", body), Plain(body));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvgate::upstream
