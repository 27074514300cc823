#include "engine/text/output/recipient_parser.h"

#include <gtest/gtest.h>

#include "tests/engine/text/output/parse.h"

namespace kvgate::output {
namespace {

constexpr const char* kTail = "assistant\n>>>";

TEST(RecipientParserTest, TextAndCallsByTheirRecipients) {
  EXPECT_EQ(ShowReply("functionary-3.2", "all\nLook:\n>>>f\n{\"s\": \">>>\"}>>>g\n{}", kTail),
            "Look:|call f{\"s\": \">>>\"};|call g{};");
}

TEST(RecipientParserTest, WithoutTheMarkInThePromptItIsText) {
  EXPECT_EQ(ShowReply("functionary-3.2", "plain >> text"), "plain >> text");
}

TEST(RecipientParserTest, WhatIsNoArgumentsIsText) {
  EXPECT_EQ(ShowReply("functionary-3.2", "f\nnot an object", kTail), "f\nnot an object");
  EXPECT_EQ(ShowReply("functionary-3.2", "f\n", kTail), "call f{};");
  EXPECT_EQ(ShowReply("functionary-3.2", "\n{\"a\": 1}", kTail), "\n{\"a\": 1}");
}

}  // namespace
}  // namespace kvgate::output
