#include "gateway/local/embeddings/published_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/local/embeddings/made_provider.h"

namespace kvgate::local::embeddings {
namespace {

using ::testing::HasSubstr;

TEST(PublishedProviderTest, IsThereFromWhenItWasPublished) {
  PublishedProvider published;
  EXPECT_EQ(published.get(), nullptr);
  EXPECT_FALSE(published.Serves("made"));
  metrics::Registry registry;
  registry.AddCollector([&](auto& writer) { published.Collect(writer); });
  EXPECT_EQ(registry.Text().find("kvgate_embedding"), std::string::npos);
  published.Publish(std::move(MadeProvider().provider));
  ASSERT_NE(published.get(), nullptr);
  EXPECT_TRUE(published.Serves("made"));
  ASSERT_TRUE(published.get()->Embed({"a", "b c"}, "").has_value());
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_embedding_texts_total 2"));
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_embedding_tokens_total 7"));
  EXPECT_FALSE(published.is_draining());
  published.BeginDrain();
  EXPECT_TRUE(published.is_draining());
}

}  // namespace
}  // namespace kvgate::local::embeddings
