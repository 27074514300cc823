#include "gateway/proxy/provider/outgoing_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"
#include "tests/gateway/upstream/encoders.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::proxy::provider {
namespace {

using test::AskedUpstream;
using test::ChatBody;
using test::kOperatorKey;
using ::testing::HasSubstr;
using ::testing::Not;

std::string LargeBody(size_t bytes) {
  std::string body = ChatBody();
  body.insert(body.size() - 1, R"(,"user":")" + std::string(bytes, 'u') + '"');
  return body;
}

TEST(OutgoingRequestTest, ABodyOfTheSameDialectGoesOutAsItCame) {
  AskedUpstream asked({.request = {.path = "/v1/chat/completions?a=b",
                                   .body = ChatBody(),
                                   .fields = {{"Authorization", "Bearer sk-caller"},
                                              {"x-kvgate-explain", "0"},
                                              {"Connection", "keep-alive"},
                                              {"X-Own", "kept"}}}});
  ASSERT_TRUE(asked.Build());
  EXPECT_EQ(asked.outgoing->translation(), nullptr);
  EXPECT_EQ(asked.outgoing->body(), ChatBody());
  EXPECT_EQ(asked.outgoing->received(), ChatBody());
  const std::string head = asked.outgoing->Head();
  EXPECT_TRUE(head.starts_with("POST /v1/chat/completions?a=b HTTP/1.1\r\n")) << head;
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer sk-caller\r\n"));
  EXPECT_THAT(head, HasSubstr("X-Own: kept\r\n"));
  EXPECT_THAT(head, HasSubstr(fmt::format("Content-Length: {}\r\n", ChatBody().size())));
  EXPECT_THAT(head, Not(HasSubstr("x-kvgate")));
  EXPECT_THAT(head, Not(HasSubstr("keep-alive")));
}

TEST(OutgoingRequestTest, AnotherNameOfTheModelIsTheOnlyChange) {
  AskedUpstream asked({});
  ASSERT_TRUE(asked.Build("a-much-longer-name"));
  std::string expected = ChatBody();
  expected.replace(expected.find("m-1"), 3, "a-much-longer-name");
  EXPECT_EQ(asked.outgoing->body(), expected);
  EXPECT_EQ(asked.outgoing->received(), ChatBody());
  EXPECT_THAT(asked.outgoing->Head(),
              HasSubstr(fmt::format("Content-Length: {}\r\n", expected.size())));
  AskedUpstream nameless({.request = {.body = R"({"messages":[]})"}});
  ASSERT_TRUE(nameless.Build("m-2"));
  EXPECT_EQ(nameless.outgoing->body(), R"({"messages":[]})");
}

TEST(OutgoingRequestTest, ABodyKeepsItsEncodingUnlessItIsChanged) {
  const std::string encoded = upstream::Encode("gzip", ChatBody());
  const test::TestRequest request = {.body = encoded, .fields = {{"Content-Encoding", "gzip"}}};
  AskedUpstream same({.request = request});
  ASSERT_TRUE(same.Build());
  EXPECT_EQ(same.outgoing->body(), encoded);
  EXPECT_THAT(same.outgoing->Head(), HasSubstr("Content-Encoding: gzip\r\n"));
  AskedUpstream renamed({.request = request});
  ASSERT_TRUE(renamed.Build("m-2"));
  EXPECT_THAT(renamed.outgoing->body(), HasSubstr(R"("model":"m-2")"));
  EXPECT_THAT(renamed.outgoing->Head(), Not(HasSubstr("Content-Encoding")));
}

TEST(OutgoingRequestTest, AnotherDialectGetsItsOwnBodyHeadAndCredential) {
  AskedUpstream asked({.request = {.body = R"({"model":"m-1","messages":[)"
                                           R"({"role":"user","content":"hi"}]})",
                                   .fields = {{"Authorization", "Bearer sk-caller"},
                                              {"OpenAI-Organization", "org"},
                                              {"X-Own", "kept"}}},
                       .dialect = "anthropic"});
  const Result<void> built = asked.Build();
  ASSERT_TRUE(built) << built.error().ToString();
  ASSERT_NE(asked.outgoing->translation(), nullptr);
  EXPECT_THAT(asked.outgoing->body(), HasSubstr(R"("max_tokens")"));
  EXPECT_EQ(asked.outgoing->received(), asked.ask.body);
  const std::string head = asked.outgoing->Head();
  EXPECT_TRUE(head.starts_with("POST /v1/messages HTTP/1.1\r\n")) << head;
  EXPECT_THAT(head, HasSubstr("anthropic-version: 2023-06-01\r\n"));
  EXPECT_THAT(head, HasSubstr("x-api-key: sk-caller\r\n"));
  EXPECT_THAT(head, HasSubstr("X-Own: kept\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Authorization")));
  EXPECT_THAT(head, Not(HasSubstr("OpenAI-Organization")));
}

TEST(OutgoingRequestTest, TheGatewaysOwnKeyIsNeverSent) {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("gateway-key").Finish().bytes);
  for (const bool has_key : {false, true}) {
    for (const char* const dialect : {"openai", "anthropic"}) {
      AskedUpstream asked(
          {.request = {.body = ChatBody(), .fields = {{"Authorization", "Bearer gateway-key"}}},
           .dialect = dialect,
           .has_key = has_key,
           .key = key});
      ASSERT_TRUE(asked.Build());
      EXPECT_THAT(asked.outgoing->Head(), Not(HasSubstr("gateway-key"))) << dialect;
      EXPECT_EQ(asked.outgoing->Head().find(kOperatorKey) != std::string::npos, has_key);
    }
  }
}

TEST(OutgoingRequestTest, TheSpanOfTheRequestStandsWhereItsCallersStood) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const std::string callers = "00-" + trace + "-00f067aa0ba902b7-00";
  const auto head_of = [&](bool has_spans, const char* path, const char* dialect) {
    AskedUpstream asked({.request = {.path = path,
                                     .body = ChatBody(),
                                     .fields = {{"Traceparent", callers}, {"tracestate", "a=b"}}},
                         .dialect = dialect,
                         .has_spans = has_spans});
    EXPECT_TRUE(asked.Build());
    EXPECT_EQ(asked.outgoing->received(), ChatBody());
    const std::string own = upstream::wire::TraceparentOf(upstream::wire::OwnTrace(
        asked.request->head().request_id, upstream::wire::ParseTraceparent(callers)));
    return std::pair(asked.outgoing->Head(), "traceparent: " + own + "\r\n");
  };
  for (const char* const dialect : {"openai", "anthropic"}) {
    const auto [head, own] = head_of(true, "/v1/chat/completions", dialect);
    EXPECT_THAT(head, HasSubstr(own));
    EXPECT_THAT(own, HasSubstr("00-" + trace + "-"));
    EXPECT_THAT(own, HasSubstr("-00\r\n")) << "the caller does not sample";
    EXPECT_THAT(head, Not(HasSubstr("Traceparent")));
    EXPECT_THAT(head, HasSubstr("tracestate: a=b\r\n"));
  }
  // Nothing is said where there is no span of ours.
  for (const auto& [has_spans, path] :
       {std::pair(false, "/v1/chat/completions"), std::pair(true, "/v1/other")}) {
    const auto [head, own] = head_of(has_spans, path, "openai");
    EXPECT_THAT(head, HasSubstr("Traceparent: " + callers + "\r\ntracestate: a=b\r\n")) << path;
    EXPECT_THAT(head, Not(HasSubstr("traceparent"))) << path;
  }
}

TEST(OutgoingRequestTest, WhatTheOtherDialectCannotSayIsAnErrorThatNamesIt) {
  AskedUpstream asked({.request = {.body = R"({"model":"m-1","n":3,"messages":[)"
                                           R"({"role":"user","content":"hi"}]})"},
                       .dialect = "anthropic"});
  const Result<void> built = asked.Build();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().field, "n");
  AskedUpstream unreadable(
      {.request = {.body = "not gzip", .fields = {{"content-encoding", "gzip"}}},
       .dialect = "anthropic"});
  const Result<void> refused = unreadable.Build();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST(OutgoingRequestTest, AKeysLimitOnAnswersIsWrittenIntoTheBody) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("gateway-key").Finish().bytes);
  key.output_tokens_max = 5;
  const std::vector<std::pair<std::string, std::string>> fields = {{"x-kvgate-key", "gateway-key"}};
  AskedUpstream asked(
      {.request = {.body = ChatBody(), .fields = fields}, .key = key, .prompts = &prompts});
  ASSERT_TRUE(asked.Build());
  EXPECT_THAT(asked.outgoing->body(), HasSubstr("tokens\":5"));
  EXPECT_EQ(asked.proxy.bodies().bytes(), asked.outgoing->body().size());
  // A body that cannot be read cannot be limited.
  for (service::Prompts* const examined : {&prompts, static_cast<service::Prompts*>(nullptr)}) {
    AskedUpstream garbage(
        {.request = {.body = "garbage", .fields = fields}, .key = key, .prompts = examined});
    const Result<void> built = garbage.Build();
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(OutgoingRequestTest, AChangedBodyThatFindsNoRoomIsRefused) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  AskedUpstream asked(
      {.prompts = &prompts, .bodies = {.bytes_max = 10, .tenant_share = 1, .body_bytes_max = 1}});
  const Result<void> built = asked.Build("m-2");
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(asked.proxy.bodies().bytes(), 0u);
}

TEST(OutgoingRequestTest, OnlyALargeBodyIsSharedWithAWorkerAndItCanBeGivenBack) {
  AskedUpstream small({});
  ASSERT_TRUE(small.Build());
  EXPECT_EQ(small.outgoing->Share(), nullptr);
  const std::string body = LargeBody(300'000);
  AskedUpstream large({.request = {.body = body}});
  ASSERT_TRUE(large.Build());
  const auto& waiting = large.proxy.environment().shared_body_bytes;
  ASSERT_NE(large.outgoing->Share(), nullptr);
  EXPECT_EQ(waiting->load(), body.size());
  EXPECT_EQ(large.outgoing->body(), body);
  large.proxy.Run(large.outgoing->GiveBack());
  EXPECT_EQ(large.request->body().bytes(), body) << "for the next upstream";
  EXPECT_TRUE(large.request->body().lease().GrowTo(body.size()));
  large.outgoing->Release();
  EXPECT_EQ(waiting->load(), 0u);
  EXPECT_EQ(large.proxy.bodies().bytes(), 0u);
  EXPECT_EQ(large.request->body().bytes(), "");
}

TEST(OutgoingRequestTest, NothingIsSharedWhileTooMuchWaitsForTheWorkers) {
  AskedUpstream asked({.request = {.body = LargeBody(300'000)}});
  ASSERT_TRUE(asked.Build());
  *asked.proxy.environment().shared_body_bytes = size_t{8} << 20;
  EXPECT_EQ(asked.outgoing->Share(), nullptr);
  EXPECT_EQ(asked.outgoing->body(), asked.ask.body);
  *asked.proxy.environment().shared_body_bytes = 0;
}

// An agent's conversation, whose state is kept.
std::string AgentBody(std::string_view more = "") {
  return fmt::format(R"({{"model":"m-1","tools":[{{"type":"function","function":{{"name":"f"}}}}],)"
                     R"("messages":[{{"role":"user","content":"hi"}}{}]}})",
                     more);
}
constexpr auto kPrefixes = store::meta::MetaTable::kPrefixes;

TEST(OutgoingRequestTest, WhatGoesOutIsOnTheDiskBeforeIt) {
  store::MemoryMetaStore meta;
  service::branches::BranchStore branches({.meta = meta});
  service::Prompts prompts(prompt::Optimizer::Options{}, {.branches = &branches});
  AskedUpstream asked({.request = {.body = AgentBody()}, .prompts = &prompts});
  ASSERT_TRUE(asked.Build());
  EXPECT_EQ(meta.CountRows(kPrefixes, "B"), 1U);
  EXPECT_EQ(branches.stats().num_lost, 0U);
}

TEST(OutgoingRequestTest, ADiskThatDoesNotAnswerHoldsNothingUp) {
  store::MemoryMetaStore meta;
  service::branches::BranchStore branches({.meta = meta});
  service::Prompts prompts(prompt::Optimizer::Options{}, {.branches = &branches});
  AskedUpstream asked({.request = {.body = AgentBody()}, .prompts = &prompts});
  meta.holds = true;
  const Result<void> built = asked.Build();
  const uint64_t num_lost = branches.stats().num_lost;
  meta.holds = false;
  ASSERT_TRUE(built);
  EXPECT_EQ(num_lost, 1U);
}

TEST(OutgoingRequestTest, WhatAnEarlierProcessSentIsReadBeforeTheConversationGoesOn) {
  store::MemoryMetaStore meta;
  const std::string first = AgentBody();
  {
    service::branches::BranchStore branches({.meta = meta});
    service::Prompts prompts(prompt::Optimizer::Options{}, {.branches = &branches});
    AskedUpstream asked({.request = {.body = first}, .prompts = &prompts});
    ASSERT_TRUE(asked.Build());
    meta.refuses = true;  // the process ends before it can take the request back
  }
  meta.refuses = false;
  service::branches::BranchStore branches({.meta = meta});
  ASSERT_EQ(branches.stats().num_branches, 1U);
  service::Prompts prompts(prompt::Optimizer::Options{}, {.branches = &branches});
  const std::string more =
      R"(,{"role":"assistant","content":"yes"},{"role":"user","content":"go on"})";
  AskedUpstream asked({.request = {.body = AgentBody(more)}, .prompts = &prompts});
  ASSERT_TRUE(asked.Build());
  EXPECT_EQ(branches.stats().num_recalled, 1U);
  EXPECT_EQ(meta.CountRows(kPrefixes, "B"), 2U) << "it is gone on with";
}

}  // namespace
}  // namespace kvgate::proxy::provider
