// Tests texts written by clients, upstreams and models: bodies of every dialect and their
// translation, events, and replies that are parsed.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/output/families.h"
#include "engine/text/output/reply_parser.h"
#include "gateway/dialect/chat/chat_completions.h"
#include "gateway/dialect/completions/completions.h"
#include "gateway/dialect/messages/messages.h"
#include "gateway/dialect/reply_translator.h"
#include "gateway/dialect/request_translator.h"
#include "gateway/dialect/responses/responses.h"
#include "gateway/ledger/reply/reply_scanner.h"
#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/volatile_text.h"
#include "gateway/prompt/templates/text_lines.h"
#include "gateway/upstream/body_scan.h"
#include "tests/complexity/complexity.h"

namespace kvgate::complexity {
namespace {

using dialect::form::Dialect;

std::string Repeated(std::string_view text, size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Joins `piece(i)` for each i with commas.
template <typename Piece>
std::string Listed(size_t count, Piece piece) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) all += ',';
    all += piece(i);
  }
  return all;
}

struct Body {
  const char* name;
  size_t begin;
  std::function<std::string(size_t)> make;
};

std::string Member(size_t i) { return "\"k" + std::to_string(i) + "\":[1,\"x\"]"; }

// --- what clients send ------------------------------------------------------------------------

std::string Turn(size_t i) {
  return std::string(R"({"role":")") + (i % 2 == 0 ? "user" : "assistant") +
         R"(","content":"turn )" + std::to_string(i) + "\"}";
}

std::string Fields(std::string_view dialect_fields) {
  return "{\"model\":\"local\",\"max_tokens\":9," + std::string(dialect_fields) + "}";
}

const std::vector<Body>& Conversations() {
  static const std::vector<Body> bodies = {
      {"turns", 4'000, [](size_t n) { return Fields("\"messages\":[" + Listed(n, Turn) + "]"); }},
      {"one long text", 400'000,
       [](size_t n) {
         return Fields(R"("messages":[{"role":"user","content":")" + Repeated("a", n) + "\"}]");
       }},
      {"escapes", 160'000,
       [](size_t n) {
         return Fields(R"("messages":[{"role":"user","content":")" + Repeated("\\u00e9\\n", n / 8) +
                       "\"}]");
       }},
      {"parts of one turn", 4'000,
       [](size_t n) {
         return Fields(R"("messages":[{"role":"user","content":[)" +
                       Listed(n, [](size_t) { return R"({"type":"text","text":"x"})"; }) + "]}]");
       }},
      {"fields that nobody knows", 4'000,
       [](size_t n) {
         return Fields(R"("messages":[{"role":"user","content":"x"}],"metadata":{)" +
                       Listed(n, Member) + "}");
       }},
      {"one field many times", 8'000,
       [](size_t n) {
         return Fields(R"("messages":[{"role":"user","content":"x"}],)" +
                       Listed(n, [](size_t) { return "\"user\":\"x\""; }));
       }},
  };
  return bodies;
}

const std::vector<Body>& Inputs() {
  static const std::vector<Body> bodies = {
      {"items", 4'000, [](size_t n) { return Fields("\"input\":[" + Listed(n, Turn) + "]"); }},
      {"calls and their outputs", 1'500,
       [](size_t n) {
         return Fields("\"input\":[" +
                       Listed(n,
                              [](size_t i) {
                                const std::string id = std::to_string(i);
                                return R"({"type":"function_call","call_id":"c)" + id +
                                       R"(","name":"f","arguments":"{}"},)" +
                                       R"({"type":"function_call_output",)" + R"("call_id":"c)" +
                                       id + R"(","output":"x"})";
                              }) +
                       "]");
       }},
  };
  return bodies;
}

using Read = std::function<void(std::string_view)>;

void ExpectReadsLinearly(const char* reader, const std::vector<Body>& bodies, const Read& read) {
  for (const Body& body : bodies) {
    ExpectGrowsLinearly({.name = std::string(reader) + ", " + body.name, .begin = body.begin},
                        [&](size_t n) -> std::function<void()> {
                          return [text = body.make(n), &read] { read(text); };
                        });
  }
}

TEST(BodiesComplexityTimingTest, RequestsOfEveryDialect) {
  ExpectReadsLinearly("chat", Conversations(),
                      [](auto text) { (void)dialect::chat::DecodeChatCompletions(text, {}); });
  ExpectReadsLinearly("messages", Conversations(), [](auto text) {
    (void)dialect::messages::DecodeMessages(text, dialect::messages::MessagesUse::kCreate, {});
  });
  ExpectReadsLinearly("responses", Inputs(), [](auto text) {
    (void)dialect::responses::DecodeResponses({.body = text, .request_id = "r"}, {});
  });
  const std::vector<Body> prompts = {
      {"token ids", 100'000,
       [](size_t n) {
         return Fields("\"prompt\":[" + Listed(n, [](size_t) { return "7"; }) + "]");
       }},
      {"stop strings", 2'000,
       [](size_t n) {
         return Fields(R"("prompt":"x","stop":[)" + Listed(n, [](size_t) { return "\"s\""; }) +
                       "]");
       }},
      {"biases", 2'000, [](size_t n) {
         return Fields(R"("prompt":"x","logit_bias":{)" +
                       Listed(n, [](size_t i) { return "\"" + std::to_string(i) + "\":1"; }) + "}");
       }}};
  ExpectReadsLinearly("completions", prompts,
                      [](auto text) { (void)dialect::completions::DecodeCompletions(text, {}); });
}

TEST(BodiesComplexityTimingTest, Tools) {
  const std::vector<Body> bodies = {
      {"many tools", 50,
       [](size_t n) {
         return Fields(
             R"("messages":[{"role":"user","content":"x"}],"tools":[)" +
             Listed(n,
                    [](size_t i) {
                      return R"({"type":"function","function":{"name":"f)" + std::to_string(i) +
                             R"(","parameters":{"type":"object","properties":{)" +
                             Listed(20,
                                    [](size_t k) {
                                      return "\"p" + std::to_string(k) + R"(":{"type":"string"})";
                                    }) +
                             "}}}}";
                    }) +
             "]");
       }},
      {"one large tool", 8'000, [](size_t n) {
         return Fields(
             R"("messages":[{"role":"user","content":"x"}],"tools":[{"type":"function",)"
             R"("function":{"name":"f","parameters":{"type":"object","properties":{)" +
             Listed(n,
                    [](size_t k) { return "\"p" + std::to_string(k) + R"(":{"type":"string"})"; }) +
             "}}}}]");
       }}};
  ExpectReadsLinearly("tools", bodies,
                      [](auto text) { (void)dialect::chat::DecodeChatCompletions(text, {}); });
}

TEST(BodiesComplexityTimingTest, WhatIsForwarded) {
  ExpectReadsLinearly("scan", Conversations(), [](std::string_view text) {
    std::string body(text);
    (void)upstream::ScanBody(body);
  });
  ExpectReadsLinearly("request layout", Conversations(), [](std::string_view text) {
    const auto memo = prompt::parse::MakeSegmentMemo(4'096);
    (void)prompt::parse::ReadRequestLayout(dialect::form::Endpoint::kChatCompletions, text, *memo);
  });
  ExpectReadsLinearly("to messages", Conversations(), [](std::string_view text) {
    (void)dialect::TranslateRequest(
        {.from = Dialect::kChatCompletions, .to = Dialect::kMessages, .body = text});
  });
  ExpectReadsLinearly("from responses", Inputs(), [](std::string_view text) {
    (void)dialect::TranslateRequest(
        {.from = Dialect::kResponses, .to = Dialect::kChatCompletions, .body = text});
  });
}

TEST(BodiesComplexityTimingTest, VolatileTextInPrompts) {
  const std::vector<Body> texts = {
      {"tags that are never closed", 20'000, [](size_t n) { return Repeated("<files>", n / 7); }},
      {"tags whose closing fills no line", 20'000,
       [](size_t n) {
         return Repeated("\n<env>", n / 12) + "</env>" + Repeated(" ", n / 2) + "x";
       }},
      {"elements", 20'000, [](size_t n) { return Repeated("<files>a</files>\n", n / 17); }},
      {"values", 20'000, [](size_t n) { return Repeated("at 10:31:07 ", n / 12); }},
      {"words that are no values", 20'000, [](size_t n) { return Repeated("2026-", n / 5); }},
      {"numbers with commas", 20'000, [](size_t n) { return Repeated("1,", n / 2); }},
      {"digits", 20'000, [](size_t n) { return Repeated("7 ", n / 2); }},
      {"one number", 20'000, [](size_t n) { return Repeated("7", n); }},
  };
  ExpectReadsLinearly("volatile text", texts,
                      [](auto text) { (void)prompt::parse::FindVolatile(text); });
}

// Returns lines that differ in their first word.
std::string Lines(size_t n, std::string_view behind) {
  std::string text;
  for (size_t i = 0; text.size() < n; ++i) {
    for (size_t k = i + 1; k > 0; k /= 26) text += static_cast<char>('a' + k % 26);
    text += behind;
  }
  return text;
}

TEST(BodiesComplexityTimingTest, LinesThatMayChange) {
  const std::vector<Body> texts = {
      {"lines with values", 20'000, [](size_t n) { return Lines(n, " is now at 7 of it\n"); }},
      {"lines without", 20'000, [](size_t n) { return Lines(n, " is not now\n"); }},
      {"one line many times", 20'000, [](size_t n) { return Repeated("it is now 7\n", n / 12); }},
      {"quotes", 20'000, [](size_t n) { return Repeated("=\"", n / 2); }},
      {"quotes behind blanks", 20'000, [](size_t n) { return Repeated("= \"\\", n / 4); }},
      {"values and separators", 20'000, [](size_t n) { return Repeated("7 , . ", n / 6); }},
      {"paths", 20'000, [](size_t n) { return Repeated("/a./.", n / 5); }},
  };
  ExpectReadsLinearly("aligned lines", texts, [](std::string_view text) {
    std::string now = "first\n" + std::string(text);
    std::replace(now.begin(), now.end(), '7', '8');
    const prompt::templates::TextLines before(text, nullptr);
    const prompt::templates::TextLines after(now, &before);
    (void)prompt::templates::AlignLines(before, after);
  });
  ExpectReadsLinearly("slots", texts, [](std::string_view text) {
    prompt::Optimizer optimizer{prompt::Optimizer::Options{}};
    std::string system(text);
    for (const char digit : {'7', '8', '9'}) {
      std::replace(system.begin(), system.end(), static_cast<char>(digit - 1), digit);
      const std::string body = Fields("\"system\":" + nlohmann::json(system).dump() +
                                      R"(,"messages":[{"role":"user","content":"a"}])");
      prompt::OptimizeArgs args;
      args.body = body;
      args.endpoint = dialect::form::Endpoint::kMessages;
      args.session = "s";
      args.provider = "openai";
      args.mode = prompt::Mode::kStabilize;
      (void)optimizer.Prepare(args);
    }
  });
}

// --- what upstreams answer --------------------------------------------------------------------

TEST(BodiesComplexityTimingTest, AnswersOfUpstreams) {
  const auto delta = [](std::string_view choice) {
    return R"(data: {"id":"c","object":"chat.completion.chunk","model":"m",)"
           R"("choices":[{"index":0,)" +
           std::string(choice) + "}]}\n\n";
  };
  const std::vector<Body> streams = {
      {"deltas of text", 1'000,
       [&](size_t n) { return Repeated(delta(R"("delta":{"content":"x"})"), n); }},
      {"deltas of reasoning", 1'000,
       [&](size_t n) { return Repeated(delta(R"("delta":{"reasoning_content":"x"})"), n); }},
      {"deltas of a call's arguments", 1'000,
       [&](size_t n) {
         return delta(R"("delta":{"tool_calls":[{"index":0,"id":"a","type":"function",)"
                      R"("function":{"name":"f","arguments":"{\"x\":\""}}]})") +
                Repeated(delta(R"("delta":{"tool_calls":[{"index":0,)"
                               R"("function":{"arguments":"y"}}]})"),
                         n);
       }},
      {"many calls", 300,
       [&](size_t n) {
         std::string all;
         for (size_t i = 0; i < n; ++i) {
           all +=
               delta(R"("delta":{"tool_calls":[{"index":)" + std::to_string(i) +
                     R"(,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]})");
         }
         return all;
       }},
  };
  for (const Dialect to : {Dialect::kMessages, Dialect::kResponses}) {
    ExpectReadsLinearly("answer", streams, [to](std::string_view text) {
      dialect::ReplyTranslator::Options options{.from = Dialect::kChatCompletions, .events = true};
      options.reply.dialect = to;
      options.reply.stream = true;
      const auto translator = dialect::ReplyTranslator::Make(std::move(options));
      std::string out;
      for (size_t at = 0; at < text.size(); at += 1'000) {
        translator->Feed(text.substr(at, 1'000), out);
        out.clear();
      }
      (void)translator->Finish(out);
    });
  }
  const std::vector<Body> documents = {
      {"a long text", 1'000'000, [](size_t n) { return "{\"x\":\"" + Repeated("a", n) + "\"}"; }},
      {"members", 40'000, [](size_t n) { return "{" + Listed(n, Member) + "}"; }},
      {"brackets", 100'000, [](size_t n) { return "{\"x\":" + Repeated("[", n); }},
  };
  ExpectReadsLinearly("usage", documents, [](std::string_view text) {
    ledger::reply::ReplyScanner scanner;
    scanner.Reset();
    for (size_t at = 0; at < text.size(); at += 64) scanner.Feed(text.substr(at, 64));
  });
}

// --- what models write ------------------------------------------------------------------------

// For each family: its breakpoints repeated, whole and cut short, and the texts between them.
TEST(BodiesComplexityTimingTest, RepliesOfEveryFamily) {
  for (const output::Family& family : output::AllFamilies()) {
    const std::string open(family.forms[0].open);
    const std::string close(family.forms[0].close[0]);
    const std::string before(family.forms[0].before_arguments);
    const std::string cut = open.empty() ? "{\"na" : open.substr(0, open.size() - 1);
    const std::vector<Body> replies = {
        {"marks cut short", 20'000, [&](size_t n) { return Repeated(cut, n / cut.size()); }},
        {"calls", 20'000,
         [&](size_t n) {
           const std::string call = open + R"({"name":"f","arguments":{"x":"y"}})" + close + "\n";
           return Repeated(call, n / call.size());
         }},
        {"arguments without an end", 20'000,
         [&](size_t n) {
           return open +
                  (before.empty() ? R"({"name":"f","arguments":{"x":")"
                                  : "f" + before + "{\"x\":\"") +
                  Repeated("a\\\"{", n / 4);
         }},
        {"reasoning that opens and opens", 20'000,
         [&](size_t n) {
           const std::string mark(family.reasoning.open);
           return Repeated(mark + "x" + mark.substr(0, mark.size() / 2), n / (2 * mark.size() + 2));
         }},
        {"brackets", 20'000, [&](size_t n) { return open + Repeated("[{(", n / 3); }},
    };
    ExpectReadsLinearly(family.name.data(), replies, [&](std::string_view text) {
      const auto parser =
          output::MakeReplyParser({.family = family.name,
                                   .calls = true,
                                   .tools = {{.name = "f", .text_arguments = {"x"}}}});
      std::vector<output::Piece> pieces;
      for (size_t at = 0; at < text.size(); at += 3) {
        parser->Push(text.substr(at, 3), pieces);
        pieces.clear();
      }
      parser->Finish(pieces);
    });
  }
}

}  // namespace
}  // namespace kvgate::complexity
