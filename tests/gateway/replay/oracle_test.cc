#include "gateway/replay/oracle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/gateway/replay/model_driver.h"

namespace kvgate::replay {
namespace {

TraceRequest Request(int64_t seconds, std::string body, std::string conversation = "c") {
  return {.time_us = seconds * 1'000'000,
          .tenant = "t",
          .conversation = std::move(conversation),
          .endpoint = dialect::form::Endpoint::kMessages,
          .upstream = "anthropic",
          .provider = "anthropic",
          .headers = {},
          .body = std::move(body),
          .usage = {},
          .ttft_us = 1'000'000};
}

std::string Body(std::string_view system, std::string_view user) {
  return fmt::format(R"({{"model":"claude-sonnet-5","system":"{}",)"
                     R"("messages":[{{"role":"user","content":"{}"}}]}})",
                     system, user);
}

int64_t Read(Oracle& oracle, const TraceRequest& request) {
  const Result<Oracle::Answer> answer = oracle.Ask(request, "anthropic");
  return answer ? answer->usage.cache_read_tokens : -1;
}

TEST(Oracle, ReadsLinesThatWereSentBeforeWhereverTheyStand) {
  Oracle oracle(ledger::Prices::Builtin());
  const std::string lines = Words(1000, 'a') + "\\n" + Words(1000, 'b') + "\\n";
  EXPECT_EQ(Read(oracle, Request(0, Body(lines + "12:00\\nend", "x"))), 0);
  EXPECT_NEAR(static_cast<double>(Read(oracle, Request(10, Body("12:01\\n" + lines + "end", "x")))),
              2000, 20);
}

TEST(Oracle, ALineThatIsThereTwiceHasToHaveBeenThereTwice) {
  Oracle oracle(ledger::Prices::Builtin());
  const std::string line = Words(2000) + "\\n";
  Read(oracle, Request(0, Body(line + "end", "x")));
  EXPECT_NEAR(static_cast<double>(Read(oracle, Request(10, Body(line + line + "end", "x")))), 2000,
              20);
}

TEST(Oracle, OrderOfKeysAndLineEndsDoNotCount) {
  Oracle oracle(ledger::Prices::Builtin());
  const auto body = [](std::string_view tool) {
    return fmt::format(R"({{"model":"claude-sonnet-5","tools":[{}],"messages":[]}})", tool);
  };
  Read(oracle, Request(0, body(fmt::format(R"({{"a":"{}\r\n","b":2}})", Words(2000)))));
  EXPECT_GT(Read(oracle, Request(10, body(fmt::format(R"({{"b":2,"a":"{}\n"}})", Words(2000))))),
            2000);
}

TEST(Oracle, KnowsLifetimesMinimumsAndWhenAnswersBegin) {
  Oracle oracle(ledger::Prices::Builtin());
  const std::string body = Body(Words(2000), "x");
  Read(oracle, Request(0, body));
  EXPECT_EQ(Read(oracle, Request(0, body)), 0);  // the first answer has not begun
  EXPECT_GT(Read(oracle, Request(200, body)), 0);
  EXPECT_EQ(Read(oracle, Request(600, body)), 0);  // expired after five minutes
  const std::string small = Body(Words(900, 'b'), "x");
  Read(oracle, Request(601, small));
  EXPECT_EQ(Read(oracle, Request(610, small)), 0);
}

TEST(Oracle, SharesSystemPromptsBetweenConversationsAndNothingElse) {
  Oracle oracle(ledger::Prices::Builtin());
  const std::string body = Body(Words(2000), Words(3000, 'u'));
  Read(oracle, Request(0, body));
  const int64_t read = Read(oracle, Request(10, body, "another"));
  EXPECT_NEAR(static_cast<double>(read), 2000, 20);
}

TEST(Oracle, WritesOnceWhatIsReadAtAll) {
  Oracle oracle(ledger::Prices::Builtin());
  const std::string body = Body(Words(2000), "x");
  EXPECT_EQ(oracle.Ask(Request(0, body), "anthropic")->written_tokens, 0);
  EXPECT_GT(oracle.Ask(Request(10, body), "anthropic")->written_tokens, 2000);
  EXPECT_EQ(oracle.Ask(Request(20, body), "anthropic")->written_tokens, 0);
}

TEST(ConversationOf, TakesTheStrongestName) {
  TraceRequest request = Request(0, R"({"metadata":{"user_id":"u"},"prompt_cache_key":"k"})", "");
  EXPECT_EQ(ConversationOf(request), "u");
  request.headers = {{.name = "session_id", .value = "s"}};
  EXPECT_EQ(ConversationOf(request), "s");
  request.conversation = "c";
  EXPECT_EQ(ConversationOf(request), "c");
  EXPECT_EQ(ConversationOf(Request(0, Body("a", "x"), "")),
            ConversationOf(Request(0, Body("b", "x"), "")));
  EXPECT_NE(ConversationOf(Request(0, Body("a", "x"), "")),
            ConversationOf(Request(0, Body("a", "y"), "")));
}

}  // namespace
}  // namespace kvgate::replay
