#include "gateway/service/prompts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace kvgate::service {
namespace {

using dialect::form::Endpoint;
using testing::HasSubstr;

const std::string kWords = [] {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("word{} ", i % 97);
  return text;
}();

std::string Chat(std::string_view more = "") {
  return fmt::format(R"({{"model":"m","messages":[{{"role":"system","content":"{}"}},)"
                     R"({{"role":"user","content":"hi"}}]{}}})",
                     kWords, more);
}

struct Sending {
  Sending() { upstream.name = "up"; }

  config::UpstreamConfig upstream;
  config::KeyConfig key;
  upstream::wire::HeaderFields fields;
  std::string credential = "Bearer sk-1";

  Prompts::Args Args(std::string_view body) const {
    return {.body = body,
            .endpoint = Endpoint::kChatCompletions,
            .tenant = "t",
            .upstream = upstream,
            .provider = "openai",
            .key = &key,
            .fields = fields,
            .credential = credential};
  }
};

std::string Sent(Prompts& prompts, const Prompts::Args& args) {
  const auto prepared = prompts.Prepare(args);
  EXPECT_TRUE(prepared) << prepared.error().detail;
  return prepared ? prepared->body.value_or(std::string(args.body)) : "";
}

TEST(RuleBitsTest, TheConfigurationKnowsEveryRuleAndNoOther) {
  std::vector<std::string> names;
  for (size_t i = 0; i < prompt::parse::kNumRules; ++i) {
    names.emplace_back(prompt::parse::RuleName(static_cast<prompt::parse::Rule>(i)));
    const auto config = config::ParseConfig(
        fmt::format("[[upstream]]\nname = \"a\"\nbase_url = \"http://127.0.0.1:1\"\n"
                    "rules_off = [\"{}\"]\n",
                    names.back()),
        "f");
    ASSERT_TRUE(config) << names.back();
    EXPECT_EQ(RuleBits(config->upstreams[0].rules_off), uint32_t{1} << i);
  }
  EXPECT_EQ(RuleBits(names), (uint32_t{1} << prompt::parse::kNumRules) - 1);
  EXPECT_FALSE(
      config::ParseConfig("[[key]]\nname = \"k\"\nkey_env = \"K\"\nrules_off = [\"no\"]", "f"));
}

TEST(IsSubscriptionTest, TokensOfPersonsAndTheHeadersThatComeWithThem) {
  EXPECT_TRUE(IsSubscription("Bearer sk-ant-oat01-x", {}));
  EXPECT_TRUE(IsSubscription("sk-ant-oat01-x", {}));
  EXPECT_TRUE(IsSubscription("Bearer eyJhbGciOiJub25lIn0.eyJ9.c2ln", {}));
  EXPECT_TRUE(IsSubscription("sk-1", {{"Anthropic-Beta", "a,oauth-2025-04-20"}}));
  EXPECT_TRUE(IsSubscription("sk-1", {{"ChatGPT-Account-Id", "acct"}}));
  EXPECT_FALSE(IsSubscription("Bearer sk-ant-api03-x", {{"anthropic-beta", "a,b"}}));
  EXPECT_FALSE(IsSubscription("", {}));
}

TEST(PromptsTest, AKeysModeStandsInFrontOfTheUpstreams) {
  Prompts prompts({});
  Sending sending;
  sending.upstream.mode = "stabilize";
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())), HasSubstr(R"("mode":"stabilize")"));
  sending.key.mode = "observe";
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())), HasSubstr(R"("mode":"observe")"));
  sending.key.mode = "pin";
  sending.credential = "Bearer sk-ant-oat01-x";
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())), HasSubstr(R"("mode":"observe")"));
}

TEST(PromptsTest, AnExplanationNamesTheRulesOfItsModeAndWhatThePromptIsMadeOf) {
  Prompts prompts({});
  Sending sending;
  const auto rule_is_on = [&](std::string_view rule, std::string_view mode) {
    sending.upstream.mode = mode;
    const std::string told = prompts.Explain(sending.Args(Chat()));
    EXPECT_THAT(told, HasSubstr(R"("sources":{)"));
    return told.find(fmt::format(R"("name":"{}","on":true)", rule)) != std::string::npos;
  };
  EXPECT_TRUE(rule_is_on("volatile_held", "stabilize"));
  EXPECT_FALSE(rule_is_on("volatile_held", "pin"));
  EXPECT_FALSE(rule_is_on("reminder_kept", "pin"));
  EXPECT_TRUE(rule_is_on("tools_order", "pin"));
  EXPECT_FALSE(rule_is_on("tools_order", "observe"));
  sending.upstream = LocalUpstream({});
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())), HasSubstr(R"("upstream":"local")"));
}

TEST(PromptsTest, WhatIsLearntOfATenantsPromptsIsListedAndExplained) {
  Prompts prompts({});
  Sending sending;
  sending.upstream.mode = "stabilize";
  sending.fields = {{"x-kvgate-session", "s"}};
  const auto chat = [](std::string_view time) {
    return fmt::format(R"({{"model":"m","messages":[{{"role":"system","content":"Be brief.\n)"
                       R"(You work here as of {}, in call 7.\nBe kind."}},)"
                       R"({{"role":"user","content":"hi"}}]}})",
                       time);
  };
  EXPECT_THAT(prompts.ListTemplates("t"), HasSubstr(R"("data":[])"));
  for (const char* time : {"10:31", "10:32"}) {
    const std::string body = chat(time);
    const auto prepared = prompts.Prepare(sending.Args(body));
    ASSERT_TRUE(prepared);
    ledger::RequestRecord record;
    record.status = 200;
    prompts.Complete(record, {}, *prepared->preparation);
  }
  for (const std::string& told :
       {prompts.ListTemplates("t"), prompts.Explain(sending.Args(chat("10:33")))}) {
    EXPECT_THAT(told, HasSubstr(R"("line":"You work here as of <*>, in call <*>.")"));
    EXPECT_THAT(told, HasSubstr(R"("place":"system")"));
    EXPECT_THAT(told, HasSubstr(R"("value_changes":1)"));
    EXPECT_THAT(told, HasSubstr(R"("is_slot":true)"));
  }
  EXPECT_EQ(prompts.ListTemplates("t").find("10:31"), std::string::npos) << "no value is kept";
  EXPECT_THAT(prompts.ListTemplates("another"), HasSubstr(R"("data":[])"));
}

TEST(PromptsTest, AnExplanationShowsTheBoundOfTheKey) {
  Prompts prompts({});
  Sending sending;
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())),
              HasSubstr(R"({"name":"output_cap","on":true,"edits":0})"));
  sending.key.default_max_tokens = 77;
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())),
              HasSubstr(R"({"name":"output_cap","on":true,"edits":1})"));
  sending.upstream.mode = "observe";
  EXPECT_THAT(prompts.Explain(sending.Args(Chat())), HasSubstr("It would be refused: Missing"));
}

TEST(PromptsTest, ALayoutThatWasReadBeforeChangesNothing) {
  Sending sending;
  sending.upstream.mode = "stabilize";
  sending.key.default_max_tokens = 77;
  Prompts read_twice({});
  Prompts read_once({});
  for (const std::string& body : {Chat(), Chat(R"(,"n":1)"), Chat(R"(,"max_tokens":900)")}) {
    const Prompts::Args args = sending.Args(body);
    const std::string expected = Sent(read_twice, args);
    const Prompts::Known known = read_once.Recognize(
        {.body = body, .endpoint = args.endpoint, .tenant = args.tenant, .fields = {}});
    ASSERT_NE(known.layout, nullptr);
    const std::string copy = body;  // a layout holds for any copy of the body
    Prompts::Args again = sending.Args(copy);
    again.layout = known.layout.get();
    EXPECT_EQ(Sent(read_once, again), expected);
    EXPECT_NE(expected, body);
  }
}

TEST(PromptsTest, AKeyBoundsAnswersWhoseRequestsDoNot) {
  Prompts prompts({});
  Sending sending;
  sending.key.default_max_tokens = 77;
  EXPECT_THAT(Sent(prompts, sending.Args(Chat())), HasSubstr(R"(,"max_completion_tokens":77})"));
  EXPECT_EQ(Sent(prompts, sending.Args(Chat(R"(,"max_tokens":5)"))).find(":77"), std::string::npos);
  EXPECT_THAT(Sent(prompts, sending.Args(Chat(R"(,"max_completion_tokens":null)"))),
              HasSubstr(R"("max_completion_tokens":77)"));
  sending.fields = {{"X-Kvgate-Intent", "long-form"}};
  EXPECT_EQ(Sent(prompts, sending.Args(Chat())).find(":77"), std::string::npos);
  sending.fields = {};
  sending.key.rules_off = {"output_cap"};
  EXPECT_EQ(Sent(prompts, sending.Args(Chat())).find(":77"), std::string::npos);
  sending.credential = "Bearer sk-ant-oat01-x";
  EXPECT_EQ(Sent(prompts, sending.Args(Chat())), Chat());
}

// A key's bound must hold, and some requests must not be changed: those that would have to be are
// refused.
TEST(PromptsTest, WhereNothingMayChangeARequestBeyondItsKeysBoundIsRefused) {
  Prompts prompts({});
  const auto outcome = [&](const Sending& sending, std::string_view more) {
    const std::string body = Chat(more);
    const auto prepared = prompts.Prepare(sending.Args(body));
    if (!prepared) return prepared.error().detail;
    EXPECT_EQ(prepared->body, std::nullopt) << "not a byte is changed";
    return std::string("sent");
  };
  Sending observed;
  observed.upstream.mode = "observe";
  Sending of_key;
  of_key.key.mode = "observe";
  Sending subscribed;
  subscribed.credential = "Bearer sk-ant-oat01-x";
  Sending pretends;  // a header that anyone can send
  pretends.fields = {{"ChatGPT-Account-Id", "x"}};
  for (Sending& sending : std::initializer_list<std::reference_wrapper<Sending>>{
           observed, of_key, subscribed, pretends}) {
    sending.key.name = "team";
    EXPECT_EQ(outcome(sending, ""), "sent") << "no bound, no refusal";
    EXPECT_EQ(outcome(sending, R"(,"max_tokens":100000)"), "sent");
    sending.key.default_max_tokens = 77;
    sending.key.output_tokens_max = 500;
    EXPECT_EQ(outcome(sending, R"(,"max_tokens":500)"), "sent");
    EXPECT_EQ(outcome(sending, R"(,"max_completion_tokens":78)"), "sent");
    EXPECT_THAT(outcome(sending, R"(,"max_tokens":501)"),
                testing::AllOf(HasSubstr("'max_tokens'"), HasSubstr("'team'"), HasSubstr("501"),
                               HasSubstr("at most 500"), HasSubstr("nothing of")));
    EXPECT_THAT(outcome(sending, ""),
                testing::AllOf(HasSubstr("Missing value for 'max_completion_tokens'"),
                               HasSubstr("at most 500")));
    sending.key.rules_off = {"output_cap"};
    EXPECT_EQ(outcome(sending, R"(,"max_tokens":501)"), "sent") << "the operator's word";
  }
}

// The prompt of a legacy completion is not examined, but its bound is.
TEST(PromptsTest, LegacyCompletionsKeepTheBoundToo) {
  Prompts prompts({});
  Sending sending;
  sending.key.default_max_tokens = 77;
  sending.key.output_tokens_max = 500;
  const auto sent = [&](const std::string& body) {
    auto args = sending.Args(body);
    args.endpoint = Endpoint::kCompletions;
    return Sent(prompts, args);
  };
  EXPECT_EQ(sent(R"({"model":"m","prompt":"hi"})"),
            R"({"model":"m","prompt":"hi","max_tokens":77})");
  EXPECT_EQ(sent(R"({"max_tokens":100000,"prompt":"hi"})"), R"({"max_tokens":500,"prompt":"hi"})");
  EXPECT_EQ(sent(R"({"max_tokens":0,"prompt":"hi"})"), R"({"max_tokens":0,"prompt":"hi"})");
  sending.key = {};
  EXPECT_EQ(sent(R"({"model":"m","prompt":"hi"})"), R"({"model":"m","prompt":"hi"})");
}

// An encoded body is sent decoded if a member has to change, and untouched if none has.
TEST(PromptsTest, AContentEncodingDoesNotPassABound) {
  Prompts prompts({});
  Sending sending;
  sending.key.output_tokens_max = 500;
  const auto prepared = [&](const std::string& body) {
    auto args = sending.Args(body);
    args.encoded = true;
    return prompts.Prepare(args);
  };
  EXPECT_EQ(prepared(Chat(R"(,"max_tokens":5)"))->body, std::nullopt);
  EXPECT_EQ(nlohmann::json::parse(*prepared(Chat())->body)["max_completion_tokens"], 500);
  sending.key.mode = "observe";
  EXPECT_FALSE(prepared(Chat()));
}

TEST(PromptsTest, ABodyThatNobodyCanReadIsRefusedToAKeyWithABound) {
  Sending sending;
  EXPECT_TRUE(Prompts::CheckUnread(sending.Args("?")));
  sending.key.output_tokens_max = 500;
  EXPECT_FALSE(Prompts::CheckUnread(sending.Args("?")));
  auto embeddings = sending.Args("?");
  embeddings.endpoint = Endpoint::kEmbeddings;
  EXPECT_TRUE(Prompts::CheckUnread(embeddings)) << "it has no answer of tokens";
  sending.upstream.rules_off = {"output_cap"};
  EXPECT_TRUE(Prompts::CheckUnread(sending.Args("?")));
}

TEST(PromptsTest, AKeysCeilingHoldsWhateverIsNamed) {
  Prompts prompts({});
  Sending sending;
  sending.key.default_max_tokens = 77;
  const std::string both = R"(,"max_tokens":100000,"max_completion_tokens":99999999999999999999)";
  const auto sent = [&](const std::string& more) {
    return nlohmann::json::parse(Sent(prompts, sending.Args(Chat(more))));
  };
  EXPECT_EQ(sent(both)["max_tokens"], 77);
  EXPECT_EQ(sent(both)["max_completion_tokens"], 77);
  EXPECT_EQ(sent(R"(,"max_tokens":78)")["max_tokens"], 77);
  sending.fields = {{"x-kvgate-intent", "long-form"}};
  EXPECT_EQ(sent(R"(,"max_tokens":78)")["max_tokens"], 78);
  // With a ceiling, a long-form request without a bound gets the ceiling; any other gets the
  // default.
  sending.key.output_tokens_max = 500;
  EXPECT_EQ(sent("")["max_completion_tokens"], 500);
  EXPECT_EQ(sent(both)["max_tokens"], 500);
  sending.fields = {};
  EXPECT_EQ(sent("")["max_completion_tokens"], 77);
  EXPECT_EQ(sent(R"(,"max_tokens":78)")["max_tokens"], 78);
  EXPECT_EQ(sent(both)["max_tokens"], 500);
  // Some servers read this string as a number.
  const std::string words = Chat(R"(,"max_tokens":"100000")");
  EXPECT_EQ(prompts.Prepare(sending.Args(words)).error().field, "max_tokens");
}

// Every dialect has its own name for the bound, and the chat of other providers knows the older
// one.
TEST(PromptsTest, AKeysCeilingHoldsInEveryDialect) {
  Prompts prompts({});
  Sending sending;
  sending.key.default_max_tokens = 77;
  sending.key.output_tokens_max = 500;
  const auto sent = [&](const std::string& body, Endpoint endpoint, std::string_view provider) {
    auto args = sending.Args(body);
    args.endpoint = endpoint;
    args.provider = provider;
    return nlohmann::json::parse(Sent(prompts, args));
  };
  EXPECT_EQ(sent(Chat(), Endpoint::kChatCompletions, "deepseek")["max_tokens"], 77);
  const std::string messages = R"({"model":"m","max_tokens":9000,)"
                               R"("messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(sent(messages, Endpoint::kMessages, "anthropic")["max_tokens"], 500);
  // The provider refuses a thinking budget that is not below max_tokens, or is below 1024.
  const std::string thinks = R"({"model":"m","max_tokens":32000,"thinking":{"type":"enabled",)"
                             R"("budget_tokens":31999},)"
                             R"("messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(sent(thinks, Endpoint::kMessages, "anthropic")["thinking"]["type"], "disabled");
  sending.key.output_tokens_max = 5000;
  const nlohmann::json thought = sent(thinks, Endpoint::kMessages, "anthropic");
  EXPECT_EQ(thought["thinking"]["budget_tokens"], 4999);
  EXPECT_EQ(thought["max_tokens"], 5000);
  sending.key.output_tokens_max = 500;
  const std::string responses = R"({"model":"m","input":"hi","max_output_tokens":9000})";
  EXPECT_EQ(sent(responses, Endpoint::kResponses, "anthropic")["max_output_tokens"], 500);
}

TEST(PromptsTest, ARouteIsToldHowLongAPromptIsAndHowMuchThoughtIsAskedFor) {
  Prompts prompts({});
  const auto known = [&](const std::string& body) {
    return prompts.Recognize(
        {.body = body, .endpoint = Endpoint::kChatCompletions, .tenant = "t", .fields = {}});
  };
  EXPECT_GT(known(Chat()).num_prefix_tokens, 2000);
  EXPECT_GE(known(Chat()).num_tokens, known(Chat()).num_prefix_tokens);
  EXPECT_FALSE(known(Chat()).thinks_hard);
  EXPECT_TRUE(known(Chat(R"(,"reasoning_effort":"high")")).thinks_hard);
  EXPECT_TRUE(known(Chat(R"(,"thinking":{"type":"enabled"})")).thinks_hard);
  EXPECT_FALSE(known(Chat(R"(,"reasoning_effort":"low")")).thinks_hard);
  EXPECT_EQ(known(Chat()).prefix, known(Chat(R"(,"n":1)")).prefix);
  EXPECT_EQ(known("[]").num_tokens, 0);
}

TEST(PromptsTest, TheRecordIsToldWhatWasDoneAndWhatBroke) {
  Prompts prompts({});
  Sending sending;
  sending.key.default_max_tokens = 77;
  ledger::RequestRecord record;
  record.id = "1";
  record.status = 200;
  record.usage = ledger::reply::TokenUsage{.uncached_tokens = 900};
  const auto prompt = prompts.Prepare(sending.Args(Chat()));
  prompts.Complete(record, {}, *prompt->preparation);
  EXPECT_EQ(record.mode, "pin");
  EXPECT_EQ(record.conversation.size(), 32u);
  EXPECT_THAT(record.edits, testing::Contains(ledger::RecordEdit{.rule = "output_cap"}));
  ASSERT_TRUE(record.prefix_break);
  EXPECT_EQ(record.prefix_break->cause, "first_seen");
  int64_t uncached = 0;
  for (const auto& tokens : record.attribution) uncached += tokens.uncached;
  EXPECT_EQ(uncached, 900);
}

TEST(PromptsTest, WhatWasRefusedIsNotCountedOn) {
  Prompts prompts({});
  Sending sending;
  for (const int status : {429, 200}) {
    ledger::RequestRecord record;
    record.id = "1";
    record.status = status;
    record.usage = ledger::reply::TokenUsage{.uncached_tokens = 900};
    const auto prompt = prompts.Prepare(sending.Args(Chat()));
    prompts.Complete(record, {}, *prompt->preparation);
    EXPECT_EQ(record.prefix_break.has_value(), status == 200);
    if (status == 200) {
      EXPECT_EQ(record.prefix_break->cause, "first_seen");
    }
  }
}

}  // namespace
}  // namespace kvgate::service
