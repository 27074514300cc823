#include "engine/text/output/channel_parser.h"

#include <gtest/gtest.h>

#include "tests/engine/text/output/parse.h"

namespace kvgate::output {
namespace {

TEST(ChannelParserTest, ChannelsAreReasoningTextAndCalls) {
  EXPECT_EQ(ShowReply("harmony",
                      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
                      "commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>"),
            "think(Hm.)|call f{\"a\":1};");
  EXPECT_EQ(ShowReply("harmony",
                      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                      "<|channel|>final<|message|>Yes.<|return|>"),
            "think(Hm.)|Yes.");
}

TEST(ChannelParserTest, TheRecipientMayStandBeforeTheChannel) {
  EXPECT_EQ(ShowReply("harmony", " to=functions.f<|channel|>commentary json<|message|>{}"),
            "call f{};");
}

TEST(ChannelParserTest, ACallWithoutArgumentsHasAnEmptyObject) {
  EXPECT_EQ(ShowReply("harmony", "<|channel|>commentary to=functions.f<|message|> <|call|>"),
            "call f{};");
}

TEST(ChannelParserTest, TextWithoutAHeaderIsText) {
  EXPECT_EQ(ShowReply("harmony", "Just <|so|> < text"), "Just <|so|> < text");
  EXPECT_EQ(ShowReply("harmony", "<|ch"), "<|ch");
}

}  // namespace
}  // namespace kvgate::output
