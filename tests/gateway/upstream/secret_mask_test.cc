#include "gateway/upstream/secret_mask.h"

#include <gtest/gtest.h>

#include <random>

namespace kvgate::upstream {
namespace {

constexpr std::string_view kSecret = "sk-secret-sk-s";

TEST(SecretMaskTest, TheSecretBecomesAsManyStars) {
  const SecretMask mask(kSecret);
  const std::string stars(kSecret.size(), '*');
  EXPECT_EQ(mask.Whole("Bearer sk-secret-sk-s, sk-secret-sk-s."),
            "Bearer " + stars + ", " + stars + ".");
  EXPECT_EQ(mask.Whole("sk-secret-sk-t"), "sk-secret-sk-t");
  EXPECT_TRUE(mask.IsIn("a sk-secret-sk-s"));
  EXPECT_FALSE(mask.IsIn("a sk-secret"));
}

TEST(SecretMaskTest, AWordIsNoSecret) {
  SecretMask mask("ollama");
  EXPECT_TRUE(mask.is_empty());
  EXPECT_EQ(mask.Feed("ollama"), "ollama");
  EXPECT_FALSE(SecretMask("").IsIn(""));
}

// The texts are made of the secret's own parts and cut anywhere: the masked pieces together must
// equal the masked whole.
TEST(SecretMaskTest, HoweverItIsCutTheSameComesOut) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 6; ++i) {
      const size_t size = random() % (kSecret.size() + 1);
      text += random() % 3 == 0 ? std::string(kSecret) : std::string(kSecret.substr(0, size));
      if (random() % 2 == 0) text += "x";
    }
    SecretMask mask(kSecret);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 9;
      const size_t before = out.size();
      out += mask.Feed(std::string_view(text).substr(at, size));
      at += size;
      EXPECT_LT(std::min(at, text.size()) - out.size(), kSecret.size()) << "held back";
      EXPECT_GE(out.size(), before);
    }
    out += mask.Finish();
    EXPECT_EQ(out, SecretMask(kSecret).Whole(text));
    EXPECT_EQ(out.size(), text.size());
    EXPECT_FALSE(SecretMask(kSecret).IsIn(out));
  }
}

}  // namespace
}  // namespace kvgate::upstream
