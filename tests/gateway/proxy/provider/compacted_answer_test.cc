#include "gateway/proxy/provider/compacted_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/gateway/proxy/provider/told_answer.h"
#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::provider {
namespace {

using test::TestProxy;
using test::TestSink;
using test::ToldAnswer;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CompactedAnswerTest : public ::testing::Test {
 protected:
  bool Deliver() {
    const auto request = proxy.Open({.path = "/v1/responses"}, sink);
    CompactedAnswer answer(*request, told, inserted);
    return proxy.Run(provider::Deliver(answer, *request));
  }
  void Forward(int status, std::string_view type) {
    fields = {{"content-type", type}, {"content-length", "13"}};
    told.Forward(status, fields);
  }

  TestProxy proxy;
  TestSink sink{proxy.io()};
  ToldAnswer told;
  const std::shared_ptr<const session::compaction::Insertion> inserted =
      std::make_shared<const session::compaction::Insertion>(session::compaction::Insertion{
          .dialect = session::compaction::Dialect::kResponses,
          .compaction = session::compaction::Compaction{.request_id = "1", .sealed = "kvg1.x"}});
  upstream::wire::HeaderFields fields;
};

constexpr const char* kItem = R"({"output":[{"id":"cmp_kv1","type":"compaction",)"
                              R"("encrypted_content":"kvg1.x"})";

TEST_F(CompactedAnswerTest, ABodyHasItInFrontAndALengthOfItsOwn) {
  Forward(200, "application/json");
  told.pieces = {R"({"out)", R"(put":[]})"};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.body, std::string(kItem) + "]}");
  EXPECT_EQ(told.fate, Answer::Fate::kDelivered);
  for (const auto& [name, value] : sink.fields) EXPECT_NE(name, "content-length");
}

TEST_F(CompactedAnswerTest, AWholeAnswerHasItToo) {
  told.begun = {.kind = Begun::Kind::kWhole, .head = {}, .response = {.body = R"({"output":[]})"}};
  EXPECT_TRUE(Deliver());
  EXPECT_THAT(sink.body, StartsWith(kItem));
}

TEST_F(CompactedAnswerTest, EventsPassAsTheyCome) {
  Forward(200, "text/event-stream; charset=utf-8");
  told.pieces = {"data: {\"type\":\"response.output_text.delta\",\"output_", "index\":0}\n\n",
                 "data: [DONE]\n\n"};
  EXPECT_TRUE(Deliver());
  EXPECT_THAT(sink.body, StartsWith("event: response.output_item.added\n"));
  EXPECT_THAT(sink.body, HasSubstr("\"output_index\":1}"));
  EXPECT_THAT(sink.body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(CompactedAnswerTest, AnErrorPassesAndABreakIsSaid) {
  Forward(429, "application/json");
  told.pieces = {R"({"error":{}})"};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.status, 429);
  EXPECT_EQ(sink.body, R"({"error":{}})");

  TestSink other(proxy.io());
  const auto request = proxy.Open({.path = "/v1/responses"}, other);
  Forward(200, "application/json");
  told.pieces = {R"({"output":)"};
  told.is_cut = true;
  CompactedAnswer answer(*request, told, inserted);
  EXPECT_TRUE(proxy.Run(provider::Deliver(answer, *request)));
  EXPECT_EQ(other.status, 502);
}

}  // namespace
}  // namespace kvgate::proxy::provider
