#include "gateway/prompt/diagnose/direct_caches.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "gateway/prompt/parse/canonical.h"
#include "tests/gateway/prompt/diagnose/cache_rules.h"

namespace kvgate::prompt::diagnose {
namespace {

using ledger::reply::TokenUsage;

constexpr int64_t kSecondUs = 1'000'000;

const ledger::CacheRules kMarked = MarkedRules();
const ledger::CacheRules kByIncrements = IncrementRules();

struct Block {
  std::string text;
  uint32_t num_tokens = 0;
  int32_t ttl_seconds = 0;
};

CachedPrompt Of(const std::vector<Block>& blocks) {
  CachedPrompt prompt{.cache = CacheOf("tenant", "upstream", "model", "")};
  for (size_t i = 0; i < blocks.size(); ++i) {
    prompt.pieces.push_back({.bytes = parse::HashBytes(blocks[i].text, parse::Domain::kSame),
                             .place = {.field = "messages", .element = static_cast<int32_t>(i)},
                             .num_tokens = blocks[i].num_tokens,
                             .ttl_seconds = blocks[i].ttl_seconds});
  }
  return prompt;
}

// Notes a request at a time in seconds, one second long.
TokenUsage Note(DirectCaches& caches, const ledger::CacheRules& rules,
                const std::vector<Block>& received, const std::vector<Block>& sent,
                const TokenUsage& usage, int64_t seconds) {
  const CachedPrompt as_received = Of(received);
  const CachedPrompt as_sent = Of(sent);
  return caches.Note({.received = as_received,
                      .sent = as_sent,
                      .rules = rules,
                      .usage = usage,
                      .time_us = seconds * kSecondUs,
                      .now_us = (seconds + 1) * kSecondUs});
}

TEST(DirectCachesTest, WhatGoesOutAsItCameHasTheUsageThatIsReported) {
  std::mt19937 random(3);
  for (const ledger::CacheRules& rules : {kMarked, kByIncrements}) {
    DirectCaches caches;
    std::vector<Block> blocks = {{"system", 4'000, 300}};
    for (int turn = 0; turn < 30; ++turn) {
      blocks.push_back({"turn " + std::to_string(turn), static_cast<uint32_t>(200 + random() % 500),
                        turn % 3 == 0 ? 300 : 0});
      const TokenUsage usage{.uncached_tokens = static_cast<int64_t>(random() % 9'000),
                             .cache_read_tokens = static_cast<int64_t>(random() % 9'000),
                             .cache_write_tokens = static_cast<int64_t>(random() % 900),
                             .output_tokens = 5};
      EXPECT_EQ(Note(caches, rules, blocks, blocks, usage, turn * 40), usage)
          << "whatever the provider has made of it";
    }
  }
}

TEST(DirectCachesTest, ABreakpointThatWasAddedIsNotThereDirectly) {
  DirectCaches caches;
  const std::vector<Block> received = {{"system", 8'000}, {"question", 1'000}};
  const std::vector<Block> sent = {{"system", 8'000, 300}, {"question", 1'000}};
  const TokenUsage written{.uncached_tokens = 1'000, .cache_write_tokens = 8'000};
  EXPECT_EQ(Note(caches, kMarked, received, sent, written, 0),
            (TokenUsage{.uncached_tokens = 9'000}));
  const TokenUsage read{.uncached_tokens = 1'000, .cache_read_tokens = 8'000};
  EXPECT_EQ(Note(caches, kMarked, received, sent, read, 60),
            (TokenUsage{.uncached_tokens = 9'000}));
}

TEST(DirectCachesTest, ACallersOwnBreakpointLosesWhatChangesInFrontOfIt) {
  DirectCaches caches;
  const std::vector<Block> sent = {{"system", 8'000, 300}, {"question", 1'000}};
  const TokenUsage written{.uncached_tokens = 1'000, .cache_write_tokens = 8'000};
  EXPECT_EQ(
      Note(caches, kMarked, {{"12:00 system", 8'000, 300}, {"question", 1'000}}, sent, written, 0),
      written);
  const TokenUsage read{.uncached_tokens = 1'000, .cache_read_tokens = 8'000};
  EXPECT_EQ(
      Note(caches, kMarked, {{"12:01 system", 8'000, 300}, {"question", 1'000}}, sent, read, 60),
      written)
      << "it would have been written again";
  EXPECT_EQ(
      Note(caches, kMarked, {{"12:01 system", 8'000, 300}, {"question", 1'000}}, sent, read, 120),
      read)
      << "now it would have been read, too";
}

TEST(DirectCachesTest, AMissOfTheProvidersOwnIsNoSavingAndNoLoss) {
  DirectCaches caches;
  const std::vector<Block> received = {{"a system", 8'000, 300}, {"question", 1'000}};
  const std::vector<Block> sent = {{"system", 8'000, 300}, {"question", 1'000}};
  const TokenUsage written{.uncached_tokens = 1'000, .cache_write_tokens = 8'000};
  Note(caches, kMarked, received, sent, written, 0);
  EXPECT_EQ(Note(caches, kMarked, received, sent, written, 60), written) << "evicted there";
  EXPECT_EQ(Note(caches, kMarked, received, sent, written, 60 + 900), written) << "lapsed for both";
}

TEST(DirectCachesTest, CachesByIncrementsReadTheEqualFrontOfAChangedPiece) {
  const std::vector<Block> sent = {{"system", 8'000}, {"question", 1'000}};
  const CachedPrompt received = Of({{"system 2", 8'000}, {"question", 1'000}});
  const CachedPrompt as_sent = Of(sent);
  const TokenUsage read{.uncached_tokens = 40, .cache_read_tokens = 8'960};
  const auto direct = [&](double share) {
    DirectCaches caches;
    Note(caches, kByIncrements, {{"system 1", 8'000}, {"question", 1'000}}, sent,
         {.uncached_tokens = 9'000}, 0);
    return caches.Note({.received = received,
                        .sent = as_sent,
                        .rules = kByIncrements,
                        .usage = read,
                        .time_us = 60 * kSecondUs,
                        .now_us = 61 * kSecondUs,
                        .share_before = [=](const parse::Place&, DirectCaches::Form form) {
                          return form == DirectCaches::Form::kReceived ? share : 0.0;
                        }});
  };
  EXPECT_EQ(direct(0).cache_read_tokens, 0);
  EXPECT_EQ(direct(0).uncached_tokens, 9'000);
  EXPECT_EQ(direct(0.1).cache_read_tokens, 0) << "below the minimum";
  EXPECT_EQ(direct(0.5).cache_read_tokens, 31 * 128) << "whole increments of 4,000";
}

TEST(DirectCachesTest, TokensThatWereAddedOrLeftOutCountAsTheCallerWroteThem) {
  DirectCaches caches;
  const TokenUsage usage{.uncached_tokens = 3'300};
  EXPECT_EQ(Note(caches, kByIncrements, {{"a", 3'000}}, {{"a", 3'000}, {"ours", 300}}, usage, 0),
            (TokenUsage{.uncached_tokens = 3'000}));
}

TEST(DirectCachesTest, EntriesAreBoundedAndThoseInUseStay) {
  DirectCaches caches(64);
  const std::vector<Block> received = {{"kept", 8'000}};
  const std::vector<Block> sent = {{"kept", 8'000, 300}};
  const TokenUsage read{.cache_read_tokens = 8'000};
  Note(caches, kMarked, received, sent, {.cache_write_tokens = 8'000}, 0);
  for (int i = 1; i < 500; ++i) {
    const std::vector<Block> other = {{"other " + std::to_string(i), 8'000, 300}};
    Note(caches, kMarked, other, other, {.cache_write_tokens = 8'000}, 1);
    if (i % 8 == 0) {
      EXPECT_EQ(Note(caches, kMarked, received, sent, read, 1).cache_read_tokens, 0)
          << "it is still known that it was read because of the gateway";
    }
  }
}

TEST(DirectCachesTest, ToolsBehindTheSystemPromptAreRenderedThere) {
  parse::RequestLayout layout;
  for (const parse::Section section :
       {parse::Section::kTools, parse::Section::kSystem, parse::Section::kMessages}) {
    layout.segments.emplace_back().place.section = section;
  }
  const auto order = [&](bool tools_after_system) {
    std::vector<parse::Section> sections;
    for (const auto& piece : AsReceived(layout, {}, tools_after_system).pieces) {
      sections.push_back(piece.place.section);
    }
    return sections;
  };
  using parse::Section;
  EXPECT_EQ(order(false), (std::vector{Section::kTools, Section::kSystem, Section::kMessages}));
  EXPECT_EQ(order(true), (std::vector{Section::kSystem, Section::kTools, Section::kMessages}));
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
