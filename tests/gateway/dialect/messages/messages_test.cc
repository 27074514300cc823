#include "gateway/dialect/messages/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/translate/reply_writer.h"

namespace kvgate::dialect::messages {

using form::Fields;
using reply::ReplyOptions;

using form::DeltaKind;
using form::FinishEvent;
using form::Message;

namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// --- decoding ---------------------------------------------------------------------------------

std::string Body(const std::string& messages, const std::string& more = "") {
  return R"({"model":"m","max_tokens":9,"messages":)" + messages + more + "}";
}

constexpr const char* kUser = R"([{"role":"user","content":"hi"}])";
constexpr const char* kTools =
    R"(,"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{}}}])";

Result<form::CompletionRequest> Decode(const std::string& body) {
  return DecodeMessages(body, MessagesUse::kCreate, {});
}

std::vector<Message> MessagesOf(const Result<form::CompletionRequest>& decoded) {
  EXPECT_TRUE(decoded) << decoded.error().ToString();
  return decoded ? std::get<std::vector<Message>>(decoded->prompt) : std::vector<Message>();
}

struct BadMessages {
  std::string body;
  const char* field;
  const char* message;
};

class BadMessagesTest : public ::testing::TestWithParam<BadMessages> {};

TEST_P(BadMessagesTest, IsRefusedByNameWithTheReason) {
  const auto decoded = Decode(GetParam().body);
  ASSERT_FALSE(decoded) << GetParam().body;
  EXPECT_EQ(decoded.error().field, GetParam().field);
  EXPECT_THAT(decoded.error().detail, HasSubstr(GetParam().message));
}

constexpr const char* kMark = R"("cache_control":{"type":"ephemeral"})";

INSTANTIATE_TEST_SUITE_P(
    Fields, BadMessagesTest,
    ::testing::Values(
        BadMessages{R"({"model":"m","messages":[]})", "messages", "at least one"},
        BadMessages{R"({"model":"m","messages":[{"role":"user","content":"x"}]})", "max_tokens",
                    "Missing"},
        BadMessages{R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}]})", "model",
                    "Missing"},
        BadMessages{Body(R"([{"role":"tool","content":"x"}])"), "messages[0].role", "must be"},
        BadMessages{Body(R"([{"role":"user","content":[]}])"), "messages[0].content", "empty"},
        BadMessages{Body(R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
                    "messages[0].content[0].source.type", "Missing"},
        BadMessages{Body(R"([{"role":"user","content":[{"type":"smell"}]}])"),
                    "messages[0].content[0].type", "'smell'"},
        BadMessages{Body(kUser, R"(,"system":[{"type":"smell"}])"), "system[0].type", "'smell'"},
        BadMessages{Body(kUser, R"(,"system":[{"type":"tool_use","id":"1"}])"), "system[0].type",
                    "'tool_use'"},
        BadMessages{Body(R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",)"
                         R"("content":"x"}]}])"),
                    "messages[0].content[0].tool_use_id", "in the assistant's turn before"},
        BadMessages{Body(R"([{"role":"user","content":"x"},{"role":"assistant","content":)"
                         R"([{"type":"tool_use","id":"1","name":"f"}]}])"),
                    "messages[1].content[0].input", "Missing"},
        BadMessages{Body(kUser, R"(,"system":5)"), "system", "a string or an array"},
        BadMessages{Body(kUser, R"(,"tools":[{"name":"f"}])"), "tools[0].input_schema", "Missing"},
        BadMessages{Body(kUser, R"(,"tools":[{"type":"bash_20250124","name":"bash"}],)"
                                R"("tool_choice":{"type":"tool","name":"bash"})"),
                    "tool_choice", "can call"},
        BadMessages{Body(kUser, R"(,"tool_choice":{"type":"any"})"), "tool_choice", "tools"},
        BadMessages{Body(kUser, R"(,"tool_choice":{"type":"must"})"), "tool_choice.type", "'any'"},
        BadMessages{Body(kUser, R"(,"stop_sequences":"x")"), "stop_sequences", "an array"},
        BadMessages{Body(kUser, R"(,"thinking":{"type":"often"})"), "thinking.type", "enabled"},
        BadMessages{Body(kUser, R"(,"output_config":{"format":{"type":"json_schema"}})"),
                    "output_config.format.schema", "Missing"},
        BadMessages{Body(kUser, R"(,"output_format":{"type":"yaml"})"), "output_format.type",
                    "'json_schema'"},
        BadMessages{Body(kUser, R"(,"cache_control":{"type":"ephemeral","ttl":"2h"})"),
                    "cache_control.ttl", "'1h'"},
        BadMessages{Body(R"([{"role":"user","content":[{"type":"text","text":"",)" +
                         std::string(kMark) + "}]}]"),
                    "messages[0].content[0].cache_control", "empty"},
        BadMessages{Body(kUser, R"(,"system":[{"type":"text","text":"a",)" + std::string(kMark) +
                                    R"(},{"type":"text","text":"b","cache_control":)"
                                    R"({"type":"ephemeral","ttl":"1h"}}])"),
                    "cache_control", "behind one of '5m'"},
        BadMessages{
            R"({"model":"m","max_tokens":0,"stream":true,"messages":)" + std::string(kUser) + "}",
            "stream", "max_tokens is 0"}));

TEST(DecodeMessagesTest, BlocksBecomeTurnsOfTheOneForm) {
  const auto messages = MessagesOf(Decode(
      Body(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
           R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},)"
           R"({"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"I look"},)"
           R"({"type":"tool_use","id":"t1","name":"f","input":{"n": 9007199254740993, "x":1.0}}]},)"
           R"({"role":"user","content":[{"type":"text","text":"and?"},{"type":"tool_result",)"
           R"("tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"},)"
           R"({"type":"text","text":"way"}]}]}])",
           R"(,"system":[{"type":"text","text":"s1"},{"type":"text","text":"s2"}])")));
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0], (Message{.role = "system", .content = "s1\ns2"}));
  EXPECT_EQ(messages[1], (Message{.role = "user", .content = "a\nb"}));
  EXPECT_EQ(messages[2].reasoning, "hm");
  EXPECT_EQ(messages[2].content, "I look");
  EXPECT_EQ(messages[2].tool_calls[0].arguments, R"({"n":9007199254740993,"x":1.0})");
  EXPECT_EQ(messages[3],
            (Message{.role = "tool", .content = "Error: no\nway", .tool_call_id = "t1"}));
  EXPECT_EQ(messages[4], (Message{.role = "user", .content = "and?"}));
}

TEST(DecodeMessagesTest, ASystemTextAmongTheMessagesStaysInItsPlace) {
  const auto messages = MessagesOf(
      Decode(Body(R"([{"role":"user","content":"a"},{"role":"system","content":"be brief"},)"
                  R"({"role":"assistant","content":"b"},{"role":"system","content":"now long"},)"
                  R"({"role":"user","content":"c"}])")));
  EXPECT_THAT(messages, ElementsAre(Message{.role = "user", .content = "a\nbe brief"},
                                    Message{.role = "assistant", .content = "b"},
                                    Message{.role = "user", .content = "now long\nc"}));
}

TEST(DecodeMessagesTest, AnAssistantsTurnAtTheEndBeginsTheAnswer) {
  const auto decoded = Decode(
      Body(R"([{"role":"user","content":"a"},{"role":"assistant","content":"The answer is \n"}])"));
  EXPECT_EQ(MessagesOf(decoded).size(), 1u);
  EXPECT_EQ(decoded->answer_prefix, "The answer is");
}

TEST(DecodeMessagesTest, MarksSayWhichTurnsAreWorthKeeping) {
  const std::string mark = R"("cache_control":{"type":"ephemeral","ttl":"1h"})";
  const auto decoded =
      Decode(Body(R"([{"role":"user","content":[{"type":"text","text":"a",)" + std::string(kMark) +
                      R"(}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])",
                  R"(,"system":[{"type":"text","text":"s",)" + mark + "}]" +
                      R"(,"tools":[{"name":"f","input_schema":{},)" + mark + "}]"));
  const auto messages = MessagesOf(decoded);
  EXPECT_EQ(decoded->tools_cache_ttl_seconds, 3600);
  EXPECT_EQ(messages[0].cache_ttl_seconds, 3600);
  EXPECT_EQ(messages[1].cache_ttl_seconds, 300);
  EXPECT_EQ(messages[3].cache_ttl_seconds, 0);
  const auto automatic = MessagesOf(Decode(Body(kUser, "," + mark)));
  EXPECT_EQ(automatic.back().cache_ttl_seconds, 3600);
}

TEST(DecodeMessagesTest, ToolsAndChoicesTakeTheOneForm) {
  const auto decoded = Decode(
      Body(kUser, std::string(kTools) +
                      R"(,"tool_choice":{"type":"tool","name":"f",)"
                      R"("disable_parallel_tool_use":true},"thinking":{"type":"disabled"})"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->tools[0].name, "f");
  EXPECT_EQ(decoded->tools[0].parameters, R"({"type":"object","properties":{}})");
  EXPECT_EQ(decoded->tool_choice.mode, form::ToolMode::kRequired);
  EXPECT_THAT(decoded->tool_choice.allowed, ElementsAre("f"));
  EXPECT_FALSE(decoded->tool_choice.parallel);
  EXPECT_EQ(decoded->thinking, false);
}

TEST(DecodeMessagesTest, AFormatOfTheAnswerIsItsSchema) {
  for (const std::string field : {"output_config.format", "output_format"}) {
    const std::string format = R"({"type":"json_schema","schema":{"type": "integer"}})";
    const auto decoded = Decode(Body(kUser, field == "output_format"
                                                ? R"(,"output_format":)" + format
                                                : R"(,"output_config":{"format":)" + format + "}"));
    ASSERT_TRUE(decoded) << decoded.error().ToString();
    EXPECT_EQ(decoded->output.kind, form::OutputKind::kJsonSchema);
    EXPECT_EQ(decoded->output.text, R"({"type":"integer"})");
    EXPECT_EQ(decoded->output.field, field + ".schema");
  }
}

TEST(DecodeMessagesTest, CountingNeedsNoLimitAndAPrewarmTakesZero) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"x"}]})";
  EXPECT_TRUE(DecodeMessages(body, MessagesUse::kCount, {}));
  const auto warm = Decode(R"({"model":"m","max_tokens":0,"messages":)" + std::string(kUser) + "}");
  ASSERT_TRUE(warm);
  EXPECT_EQ(warm->max_tokens, 0);
}

TEST(DecodeMessagesTest, ThreadsAreRefusedInTheWordsThatClientsGoOnFrom) {
  const auto created = Decode(Body(kUser, R"(,"thread":{"type":"create"})"));
  ASSERT_FALSE(created);
  EXPECT_EQ(form::HttpStatus(created.error().code), 400);
  EXPECT_EQ(json::parse(form::MessagesErrorDetails(created.error())),
            json::parse(R"({"error_code":"thread_unsupported_request","unsupported":["thread"]})"));
  const auto lost =
      Decode(Body(kUser, R"(,"thread":{"type":"continue","previous_message_id":"msg_1"})"));
  ASSERT_FALSE(lost);
  EXPECT_EQ(form::HttpStatus(lost.error().code), 404);
  EXPECT_EQ(json::parse(form::MessagesErrorDetails(lost.error()))["error_code"],
            "thread_not_found");
}

// --- encoding ---------------------------------------------------------------------------------

ReplyOptions Options(bool stream) {
  return {.dialect = form::Dialect::kMessages, .request_id = "r1", .model = "m", .stream = stream};
}

FinishEvent Finish() {
  return {.reason = form::FinishReason::kToolCalls,
          .stats = {.num_prompt_tokens = 100,
                    .num_output_tokens = 7,
                    .num_cached_tokens = 64,
                    .num_marked_tokens = 90}};
}

// Encodes an answer that thinks, speaks and calls.
std::string Play(const ReplyOptions& options, const FinishEvent& finish = Finish()) {
  const auto encoder = MakeMessagesEncoder(options);
  std::string out;
  encoder->OnStart({.num_prompt_tokens = 100, .num_cached_tokens = 64, .num_marked_tokens = 90},
                   out);
  encoder->OnDelta({.kind = DeltaKind::kReasoning, .text = "h"}, out);
  encoder->OnDelta({.kind = DeltaKind::kReasoning, .text = "m"}, out);
  encoder->OnDelta({.text = "Look"}, out);
  encoder->OnDelta({.kind = DeltaKind::kCall, .text = "f", .call_id = "toolu_1"}, out);
  encoder->OnDelta({.kind = DeltaKind::kArguments, .text = "{\"a\""}, out);
  encoder->OnDelta({.kind = DeltaKind::kArguments, .text = ": 1}"}, out);
  encoder->OnDelta({.kind = DeltaKind::kCallEnd}, out);
  encoder->OnFinish(finish, out);
  return out;
}

std::vector<json> EventsOf(const std::string& stream) {
  std::vector<json> events;
  size_t begin = 0;
  while (begin < stream.size()) {
    const size_t end = stream.find("\n\n", begin);
    const std::string event = stream.substr(begin, end - begin);
    const size_t data = event.find("\ndata: ");
    events.push_back(json::parse(event.substr(data + 7)));
    EXPECT_EQ(event.substr(0, data), "event: " + events.back()["type"].get<std::string>());
    begin = end + 2;
  }
  return events;
}

TEST(EncodeMessagesTest, AStreamHasAllItsEventsInOrder) {
  const std::vector<json> events = EventsOf(Play(Options(true)));
  std::vector<std::string> kinds;
  for (const json& event : events) {
    kinds.push_back(event["type"].get<std::string>() +
                    (event.contains("index") ? std::to_string(event["index"].get<int>()) : ""));
  }
  EXPECT_THAT(kinds,
              ElementsAre("message_start", "content_block_start0", "content_block_delta0",
                          "content_block_delta0", "content_block_delta0", "content_block_stop0",
                          "content_block_start1", "content_block_delta1", "content_block_stop1",
                          "content_block_start2", "content_block_delta2", "content_block_delta2",
                          "content_block_stop2", "message_delta", "message_stop"));
  const json& message = events[0]["message"];
  EXPECT_EQ(message["id"], "msg_r1");
  EXPECT_THAT(message["content"], IsEmpty());
  EXPECT_TRUE(message["stop_reason"].is_null());
  EXPECT_EQ(message["usage"]["output_tokens"], 0);
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 64);
  EXPECT_EQ(events[1]["content_block"],
            json::parse(R"({"type":"thinking","thinking":"","signature":""})"));
  EXPECT_EQ(events[4]["delta"]["type"], "signature_delta");
  EXPECT_EQ(events[6]["content_block"], json::parse(R"({"type":"text","text":""})"));
  EXPECT_EQ(events[9]["content_block"],
            json::parse(R"({"type":"tool_use","id":"toolu_1","name":"f","input":{}})"));
  EXPECT_EQ(events[11]["delta"],
            json::parse(R"({"type":"input_json_delta","partial_json":": 1}"})"));
  EXPECT_EQ(events[13]["delta"], json::parse(R"({"stop_reason":"tool_use","stop_sequence":null})"));
  EXPECT_EQ(events[13]["usage"]["input_tokens"], 10);
  EXPECT_EQ(events[13]["usage"]["cache_creation_input_tokens"], 26);
  EXPECT_EQ(events[13]["usage"]["output_tokens"], 7);
}

TEST(EncodeMessagesTest, ABodySaysWhatTheStreamSays) {
  const json body = json::parse(Play(Options(false)));
  EXPECT_EQ(body["type"], "message");
  EXPECT_EQ(body["role"], "assistant");
  ASSERT_EQ(body["content"].size(), 3u);
  EXPECT_EQ(body["content"][0]["thinking"], "hm");
  EXPECT_EQ(body["content"][1], json::parse(R"({"type":"text","text":"Look"})"));
  EXPECT_EQ(body["content"][2]["input"], json::parse(R"({"a":1})"));
  EXPECT_EQ(body["stop_reason"], "tool_use");
  const json& usage = body["usage"];
  EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>() +
                usage["cache_creation_input_tokens"].get<int>(),
            100);
}

TEST(EncodeMessagesTest, EndsHaveTheirReasons) {
  const auto ended = [](FinishEvent finish) {
    const auto encoder = MakeMessagesEncoder(Options(false));
    std::string out;
    encoder->OnFinish(finish, out);
    return json::parse(out);
  };
  EXPECT_EQ(ended({})["stop_reason"], "end_turn");
  EXPECT_EQ(ended({.reason = form::FinishReason::kLength})["stop_reason"], "max_tokens");
  const json stopped = ended({.stop_string = "END"});
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "END");
  EXPECT_THAT(stopped["content"], IsEmpty());
}

TEST(EncodeMessagesTest, AnErrorIsTheLastEvent) {
  FinishEvent finish;
  finish.error = MakeError(ErrorCode::kOverloaded, "engine", "full");
  const std::vector<json> events = EventsOf(Play(Options(true), finish));
  EXPECT_EQ(events.back()["type"], "error");
  EXPECT_EQ(events.back()["error"]["type"], "overloaded_error");
  EXPECT_EQ(events.back()["error"]["message"], "full");
}

TEST(EncodeMessagesTest, PingsAreEventsAndCountsAreBodies) {
  EXPECT_EQ(EventsOf(std::string(MakeMessagesEncoder(Options(true))->ping())),
            std::vector<json>{json::parse(R"({"type":"ping"})")});
  EXPECT_EQ(EncodeTokenCount(12), R"({"input_tokens":12})");
}

// Claude Code's first block has other values in every request, and says nothing to a model.
TEST(DecodeMessagesTest, TheBillingHeaderIsDropped) {
  constexpr const char* kHeader = "x-anthropic-billing-header: cc_version=2.1; cch=36ee5;";
  const auto system = [&](const std::string& value) -> std::string {
    const auto decoded = Decode(Body(kUser, ",\"system\":" + value));
    if (!decoded) return decoded.error().ToString();
    const auto& messages = std::get<std::vector<Message>>(decoded->prompt);
    return messages.front().role == "system" ? messages.front().content : "none";
  };
  const std::string block = std::string(R"({"type":"text","text":")") + kHeader;
  EXPECT_EQ(system("[" + block + R"("},{"type":"text","text":"You are."}])"), "You are.");
  EXPECT_EQ(system("[" + block + R"(\nYou are."}])"), "You are.") << "what follows it stays";
  EXPECT_EQ(system("\"" + std::string(kHeader) + R"(\n\nYou are.")"), "You are.");
  EXPECT_EQ(system("[" + block + "\"}]"), "none");
  const std::string quoted = std::string("About ") + kHeader;
  EXPECT_EQ(system("\"" + quoted + "\""), quoted) << "only at the beginning";
}

TEST(DecodeMessagesTest, MediaBecomeTheSameTextInEveryTurn) {
  const std::string image = R"({"type":"image","source":{"type":"base64","media_type":"image/png",)"
                            R"("data":"iVBORw0KGgo="}})";
  const std::string turns =
      R"({"role":"user","content":[{"type":"text","text":"look"},)" + image + "]}," +
      R"({"role":"assistant","content":[{"type":"tool_use","id":"1","name":"Read","input":{}},)"
      R"({"type":"server_tool_use","id":"2","name":"web_search","input":{}},)"
      R"({"type":"web_search_tool_result","tool_use_id":"2","content":[]}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[)" +
      image +
      R"(,{"type":"tool_reference","tool_name":"Grep"},)"
      R"({"type":"document","title":"a.pdf","source":{"type":"base64",)"
      R"("media_type":"application/pdf","data":"AA=="}},)"
      R"({"type":"document","title":"t","context":"c","source":{"type":"text",)"
      R"("media_type":"text/plain","data":"readable"}},)"
      R"({"type":"search_result","title":"s","source":"https://x","content":[)"
      R"({"type":"text","text":"found"}]}]}]})";
  const auto decoded = Decode(Body("[" + turns + "]"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_THAT(decoded->left_out,
              testing::ElementsAre("image", "server_tool_use", "web_search_tool_result", "file"));
  const auto& messages = std::get<std::vector<Message>>(decoded->prompt);
  ASSERT_EQ(messages.size(), 3u);
  const std::string placeholder = form::PlaceholderOf({.what = "image", .type = "image/png"});
  EXPECT_EQ(messages[0].content, "look\n" + placeholder);
  EXPECT_EQ(messages[2].content,
            placeholder + "\nGrep\na.pdf\n" +
                form::PlaceholderOf({.what = "file", .type = "application/pdf", .name = "a.pdf"}) +
                "\nt\nc\nreadable\ns\nhttps://x\nfound");
}

TEST(DecodeMessagesTest, AnImageInTheSystemTextIsALineOfItToo) {
  const auto decoded = Decode(
      Body(kUser, R"(,"system":[{"type":"text","text":"You see:"},{"type":"image","source":{)"
                  R"("type":"base64","media_type":"image/png","data":"AA=="},)"
                  R"("cache_control":{"type":"ephemeral"}}])"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const auto& system = std::get<std::vector<Message>>(decoded->prompt).front();
  EXPECT_EQ(system.content,
            "You see:\n" + form::PlaceholderOf({.what = "image", .type = "image/png"}));
  EXPECT_EQ(system.cache_ttl_seconds, 300);
  EXPECT_THAT(decoded->left_out, testing::ElementsAre("image"));
}

TEST(DecodeMessagesTest, ACompactionBlockIsItsSummary) {
  const auto decoded = Decode(
      Body(R"([{"role":"assistant","content":[{"type":"compaction","content":"So far: x.",)"
           R"("signature":"s"}]},{"role":"user","content":[{"type":"compaction","content":null,)"
           R"("encrypted_content":"e"},{"type":"compaction","content":null,)"
           R"("encrypted_content":null},{"type":"text","text":"on"}]}])"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const auto& messages = std::get<std::vector<Message>>(decoded->prompt);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].content, "So far: x.");
  EXPECT_EQ(messages[1].content, std::string(form::kSealedCompaction) + "\non");
  EXPECT_THAT(decoded->left_out, testing::ElementsAre("compaction"));
  EXPECT_EQ(Decode(Body(kUser, R"(,"compaction":{"type":"summarize"})")).error().field,
            "compaction");
}

TEST(DecodeMessagesTest, ToolsThatAProviderRunsAreLeftOut) {
  const auto decoded = Decode(
      Body(kUser, R"(,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8},)"
                  R"({"name":"f","input_schema":{"type":"object"}}])"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_THAT(decoded->left_out, testing::ElementsAre("web_search_20250305"));
  ASSERT_EQ(decoded->tools.size(), 1u);
}

}  // namespace
}  // namespace kvgate::dialect::messages
