#include "gateway/dialect/gemini/call_signature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "base/base64.h"

namespace kvgate::dialect::gemini {
namespace {

TEST(CallSignatureTest, ComesBackAsItWas) {
  for (const size_t size : {1U, 2U, 3U, 57U, 1000U}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 37 + 251);
    const std::string signature = EncodeBase64(bytes);
    const std::string id = JoinCallId({.id = "call_7", .signature = signature});
    EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_';
    })) << id;
    EXPECT_EQ(SplitCallId(id).id, "call_7");
    EXPECT_EQ(SplitCallId(id).signature, signature);
  }
}

TEST(CallSignatureTest, OtherIdsHaveNone) {
  EXPECT_EQ(JoinCallId({.id = "c", .signature = ""}), "c");
  EXPECT_EQ(JoinCallId({.id = "c", .signature = "no base64!"}), "c");
  EXPECT_EQ(SplitCallId("toolu_1").id, "toolu_1");
  EXPECT_EQ(SplitCallId("toolu_1").signature, "");
  EXPECT_EQ(SplitCallId("c-kvgate-signature-!").id, "c");
  EXPECT_EQ(SplitCallId("c-kvgate-signature-!").signature, "");
}

}  // namespace
}  // namespace kvgate::dialect::gemini
