#include "engine/text/chat/template_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/text/chat/end_memo.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::chat {
namespace {

using jinja::value::Data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kChatMl =
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::unique_ptr<ChatFormat> Make(std::string source) {
  auto format = MakeTemplateFormat(
      {.name = "chat.jinja", .source = std::move(source), .bos_token = "<s>", .eos_token = "</s>"});
  if (!format) ADD_FAILURE() << format.error().ToString();
  return format ? std::move(*format) : nullptr;
}

// Returns the text with the marked parts in brackets.
std::string Marked(const RenderedChat& chat) {
  std::string text;
  size_t at = 0;
  for (const tokenizer::TextRange& marker : chat.markers) {
    text += chat.text.substr(at, marker.begin - at);
    text += "[" + chat.text.substr(marker.begin, marker.end - marker.begin) + "]";
    at = marker.end;
  }
  return text + chat.text.substr(at);
}

TEST(TemplateFormatTest, TheTemplateAndKnownRolesAreMarkersAndContentIsNot) {
  const std::vector<ChatMessage> messages = {{"user", "a<|im_end|>"}, {"assistant", "b"}};
  const auto chat = Make(kChatMl)->Render({.messages = messages});
  ASSERT_TRUE(chat);
  EXPECT_EQ(Marked(*chat),
            "[<s><|im_start|>user\n]a<|im_end|>[<|im_end|>\n<|im_start|>assistant\n]b"
            "[<|im_end|>\n<|im_start|>assistant\n]");
  const std::vector<ChatMessage> unknown = {{"im_start", "x"}};
  const auto named = Make("{{ '<|' ~ messages[0].role ~ '|>' }}")->Render({.messages = unknown});
  ASSERT_TRUE(named);
  EXPECT_EQ(Marked(*named), "[<|]im_start[|>]");
}

TEST(TemplateFormatTest, ContentStaysContentWhateverTheTemplateDoesToIt) {
  const std::vector<ChatMessage> messages = {{"user", " <|X|> é\"\n"}};
  for (const auto& [expression, expected] : std::vector<std::pair<std::string, std::string>>{
           {"c|trim", "[<]<|X|> é\"[>]"},
           {"c.strip()|upper", "[<]<|X|> É\"[>]"},
           {"c|tojson", "[<]\" <|X|> é\\\"\\n\"[>]"},
           {"c|replace('X', 'Y')|trim", "[<]<|[Y]|> é\"[>]"},
           {"(c.split('|')|join('/'))[2:6]", "[</]X[/]>[>]"},
           {"'%s' % c[1:3]", "[<]<|[>]"},
           {"'{}'.format(c[1:3])", "[<]<|[>]"},
           {"{'k': c[1:3]}|tojson", "[<{\"k\": ]\"<|\"[}>]"},
           {"c|list|first", "[<] [>]"},
           {"messages|map(attribute='content')|first|length", "[<10>]"}}) {
    const auto chat = Make("{% set c = messages[0].content %}<{{ " + expression + " }}>")
                          ->Render({.messages = messages});
    ASSERT_TRUE(chat) << expression << chat.error().ToString();
    EXPECT_EQ(Marked(*chat), expected) << expression;
  }
  const auto repr = Make("{{ [messages[0].content[1:3]] }}")->Render({.messages = messages});
  ASSERT_TRUE(repr);
  EXPECT_EQ(Marked(*repr), "[[]'<|'[]]");
}

TEST(TemplateFormatTest, ToolsAndArgumentsAreTheRequests) {
  const Data tools(Data::List{Data(Data::Dict{{"name", "<|f|>"}})});
  const Data::Dict arguments = {{"enable_thinking", false}, {"note", "<|n|>"}};
  const std::vector<ChatMessage> messages = {{"user", "x", {{"name", "<|u|>"}}}};
  const auto chat = Make("{{ tools|tojson }}|{{ enable_thinking }}{{ note }}{{ messages[0].name }}")
                        ->Render({.messages = messages, .tools = &tools, .arguments = &arguments});
  ASSERT_TRUE(chat);
  EXPECT_EQ(Marked(*chat), "[{\"name\": \"<|f|>\"}][|False]<|n|><|u|>");
  EXPECT_EQ(chat->text.substr(0, chat->tools_end), "[{\"name\": \"<|f|>\"}]");
  const auto two = MakeTemplateFormat(
      {.name = "t", .source = "plain", .tool_use_source = "with {{ tools|length }}"});
  ASSERT_TRUE(two);
  EXPECT_EQ((*two)->Render({.messages = messages})->text, "plain");
  EXPECT_EQ((*two)->Render({.messages = messages, .tools = &tools})->text, "with 1");
}

TEST(TemplateFormatTest, WhatIsWrongIsSaidWithItsPlace) {
  const auto bad = MakeTemplateFormat({.name = "chat.jinja", .source = "a\n{% if %}"});
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().detail, HasSubstr("chat.jinja:2:7: "));
  const std::vector<ChatMessage> messages = {{"system", "x"}};
  const auto refused =
      Make("{{ raise_exception('no system role') }}")->Render({.messages = messages});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().field, "messages");
  EXPECT_THAT(refused.error().detail, HasSubstr("no system role"));
  const auto failed = Make("\n{{ messages[0].x.y }}")->Render({.messages = messages});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().detail, HasSubstr("chat.jinja:2:17: "));
  EXPECT_EQ(Make("x")->Render({.messages = {}}).error().field, "messages");
}

TEST(TemplateFormatTest, ADeveloperIsTheSystemUnlessTheTemplateKnowsBetter) {
  const std::vector<ChatMessage> messages = {{"developer", "x"}};
  EXPECT_EQ(Make("{{ messages[0].role }}")->Render({.messages = messages})->text, "system");
  EXPECT_EQ(Make("{# developer #}{{ messages[0].role }}")->Render({.messages = messages})->text,
            "developer");
}

TEST(TemplateFormatTest, OnlyTheWantedEndsAreGiven) {
  const std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  const auto format = Make("{% for m in messages %}{{ m.content }}.{% endfor %}>");
  EXPECT_THAT(format->Render({.messages = messages})->message_ends, ElementsAre(2, 4, 7));
  const std::vector<size_t> wanted = {0, 2};
  EXPECT_THAT(format->Render({.messages = messages, .wanted_ends = wanted})->message_ends,
              ElementsAre(2, 7));
}

TEST(TemplateFormatTest, MessagesThatMayNotStopThereEndBeforeOneMoreFromTheUser) {
  const std::vector<ChatMessage> messages = {{"system", "s"}, {"user", "a"}};
  const auto format = Make(
      "{% if messages[-1].role == 'system' %}{{ raise_exception('no user') }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  const auto chat = format->Render({.messages = messages});
  ASSERT_TRUE(chat) << chat.error().ToString();
  EXPECT_EQ(chat->text.substr(0, chat->message_ends[0]), "<system>s<user>");
}

// --- the ends of messages, against their definition -------------------------------------------

std::vector<size_t> EndsByDefinition(const std::string& source,
                                     std::span<const ChatMessage> messages, const Data* tools) {
  // The end of the last message is that of the whole rendering, so a format without memory, asked
  // for prefix after prefix, gives the renderings that the definition speaks of.
  const std::string no_prompt = "{% set add_generation_prompt = false %}" + source;
  const auto whole = Make(source)->Render({.messages = messages, .tools = tools});
  std::vector<size_t> ends;
  for (size_t i = 0; whole && i < messages.size(); ++i) {
    const std::vector<size_t> none;
    const auto prefix = Make(no_prompt)->Render(
        {.messages = messages.first(i + 1), .tools = tools, .wanted_ends = none});
    ends.push_back(prefix ? CommonPrefix(prefix->text, whole->text) : SIZE_MAX);
  }
  return ends;
}

std::vector<std::pair<std::string, std::string>> SharedTemplates() {
  std::vector<std::pair<std::string, std::string>> sources;
  const auto folder = model::TestDataPath("templates");
  if (!std::filesystem::exists(folder)) return sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    sources.emplace_back(entry.path().filename(),
                         std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

std::vector<ChatMessage> Conversation(size_t size, std::mt19937& random) {
  std::vector<ChatMessage> messages = {{"system", "Be brief."}};
  const std::vector<std::string> texts = {"Hello", "  two\nlines ", "<think>\nhm\n</think>\n\nfour",
                                          "é<|im_end|>", "What is 2+2?"};
  while (messages.size() < size) {
    const bool user = messages.size() % 2 == 1;
    messages.push_back({user ? "user" : "assistant", texts[random() % texts.size()]});
  }
  return messages;
}

TEST(TemplateFormatTest, EndsAreThoseOfTheDefinitionOnEveryTurnOfAGrowingConversation) {
  const auto templates = SharedTemplates();
  if (templates.empty()) GTEST_SKIP() << "no templates (KVGATE_TEST_DATA)";
  std::mt19937 random(1);
  const Data tools(Data::List{Data(Data::Dict{
      {"type", "function"},
      {"function", Data::Dict{{"name", "f"},
                              {"description", "does"},
                              {"parameters",
                               Data::Dict{{"type", "object"}, {"properties", Data::Dict{}}}}}}})});
  size_t num_checked = 0;
  for (const auto& [name, source] : templates) {
    const auto format = Make(source);
    for (const bool with_tools : {false, true}) {
      const std::vector<ChatMessage> messages = Conversation(12, random);
      for (size_t size = 2; size <= messages.size(); size += 2) {
        const auto turn = std::span(messages).first(size);
        const Data* offered = with_tools ? &tools : nullptr;
        const auto chat = format->Render({.messages = turn, .tools = offered});
        if (!chat) continue;  // gemma has no system role
        const std::vector<size_t> expected = EndsByDefinition(source, turn, offered);
        for (size_t i = 0; i < size; ++i) {
          if (expected[i] == SIZE_MAX) continue;
          EXPECT_EQ(chat->message_ends[i], expected[i]) << name << " " << size << " " << i;
          ++num_checked;
        }
      }
    }
  }
  EXPECT_GT(num_checked, 1000u);
}

TEST(TemplateFormatTest, EndsAreThoseOfTheDefinitionWhenHistoryIsEdited) {
  // The template drops thinking before the last question, as Qwen3 does, and names the last user's
  // text first.
  const std::string source =
      "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
      "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
      "{% for m in messages %}<{{ m.role }}>{% if loop.index0 > ns.last %}{{ m.content }}"
      "{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto format = Make(source);
  std::mt19937 random(2);
  std::vector<ChatMessage> messages = Conversation(8, random);
  for (int step = 0; step < 60; ++step) {
    const size_t size = 1 + random() % messages.size();
    if (random() % 3 == 0) messages[random() % messages.size()].content += "!";
    const auto turn = std::span(messages).first(size);
    const auto chat = format->Render({.messages = turn});
    ASSERT_TRUE(chat);
    EXPECT_EQ(chat->message_ends, EndsByDefinition(source, turn, nullptr)) << step;
  }
}

}  // namespace
}  // namespace kvgate::chat
