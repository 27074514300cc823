#include "gateway/cli/server/query.h"

#include <gtest/gtest.h>

namespace kvgate::cli::server {
namespace {

TEST(QueryTest, FieldsStandBehindThePath) {
  Query query;
  EXPECT_EQ(query.On("/x"), "/x");
  query.Add("model", "a/b c&d=e");
  query.Add("limit", "5");
  EXPECT_EQ(query.On("/x"), "/x?model=a%2Fb%20c%26d%3De&limit=5");
}

TEST(QueryTest, BytesThatMeanSomethingInAUrlAreEscaped) {
  EXPECT_EQ(Escaped("aZ9-._~"), "aZ9-._~");
  EXPECT_EQ(Escaped("ä?#%"), "%C3%A4%3F%23%25");
}

}  // namespace
}  // namespace kvgate::cli::server
