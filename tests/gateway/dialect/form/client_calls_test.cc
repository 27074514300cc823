#include "gateway/dialect/form/client_calls.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvgate::dialect::form {
namespace {

TEST(ClientCallsTest, AnInputSurvivesItsArgumentsHoweverTheyAreCut) {
  const std::vector<std::string> pieces = {
      "a",    "\"",     "\\",         "\n", "\t",     "{\"input\": \"",
      "\x01", "\u00e9", "\U0001F600", "}",  "\\u0041"};
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string input;
    for (size_t i = random() % 12; i > 0; --i) input += pieces[random() % pieces.size()];
    const std::string arguments = InputArguments(input);
    InputReader reader;
    std::string read;
    for (size_t at = 0; at < arguments.size();) {
      const size_t size = 1 + random() % 4;
      reader.Push(arguments.substr(at, size), read);
      at += size;
    }
    ASSERT_EQ(read, input) << arguments;
  }
}

TEST(ClientCallsTest, OtherSpellingsOfArgumentsAreRead) {
  EXPECT_EQ(InputOf(R"( { "input" : "a\u00e9\ud83d\ude00\/" } )"), "a\u00e9\U0001F600/");
  EXPECT_EQ(InputOf(R"({"input":"\ud83dx"})"), "\uFFFDx") << "half a pair is no character";
  EXPECT_EQ(InputOf(R"({"input":"\ud83d\n"})"), "\uFFFD\n");
  EXPECT_EQ(InputOf("{}"), "");
  EXPECT_EQ(InputOf(R"({"input":"cut)"), "cut");
  EXPECT_EQ(InputOf(R"({"patch":"x"})"), R"({"patch":"x"})") << "no such object: the text itself";
  EXPECT_EQ(InputOf("plain"), "plain");
}

DeltaEvent Call(std::string name) { return {.kind = DeltaKind::kCall, .text = std::move(name)}; }

TEST(ClientCallsTest, CallsGetTheNamesThatTheirClientHas) {
  const std::vector<Tool> tools = {
      {.name = "look"},
      {.name = "patch", .is_custom = true},
      {.name = FlatName("agents", "spawn"), .space = "agents"},
      {.name = FlatName("functions", "exec"), .is_custom = true, .space = "functions"}};
  CallNamer namer(tools);
  const auto apply = [&](DeltaEvent event) {
    namer.Apply(event);
    return event;
  };
  const DeltaEvent look = apply(Call("look"));
  EXPECT_EQ(look.text, "look");
  EXPECT_FALSE(look.is_custom);
  EXPECT_EQ(apply({.kind = DeltaKind::kArguments, .text = R"({"input":"x"})"}).text,
            R"({"input":"x"})");
  EXPECT_TRUE(apply(Call("patch")).is_custom);
  EXPECT_EQ(apply({.kind = DeltaKind::kArguments, .text = R"({"input": "a\)"}).text, "a");
  const DeltaEvent rest = apply({.kind = DeltaKind::kArguments, .text = R"(nb"})"});
  EXPECT_EQ(rest.text, "\nb");
  EXPECT_TRUE(rest.is_custom);
  const DeltaEvent spawn = apply(Call("agents__spawn"));
  EXPECT_EQ(spawn.text, "spawn");
  EXPECT_EQ(spawn.space, "agents");
  EXPECT_FALSE(spawn.is_custom);
  const DeltaEvent exec = apply(Call("functions__exec"));
  EXPECT_EQ(exec.text, "exec");
  EXPECT_TRUE(exec.is_custom);
}

}  // namespace
}  // namespace kvgate::dialect::form
