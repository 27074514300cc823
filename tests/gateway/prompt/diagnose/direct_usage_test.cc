#include "gateway/prompt/diagnose/direct_usage.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gateway/prompt/parse/canonical.h"
#include "tests/gateway/prompt/diagnose/cache_rules.h"

namespace kvgate::prompt::diagnose {
namespace {

using ledger::reply::TokenUsage;

constexpr int64_t kSecondUs = 1'000'000;

// A system text of 2,000 tokens; the gateway sends "rules" for what its callers write.
struct Request {
  parse::RequestLayout layout;
  history::Branch branch;
  ledger::PriceRow row;

  Request(const std::string& callers, int64_t seconds) {
    const parse::Place place{.section = parse::Section::kSystem, .field = "system"};
    row.rules = IncrementRules();
    row.prices.emplace();
    layout.model = "m";
    parse::Segment& received = layout.segments.emplace_back();
    received.place = place;
    received.raw = parse::HashBytes(callers, parse::Domain::kSame);
    received.num_tokens = 2'000;
    branch.request.time_us = seconds * kSecondUs;
    history::SentSegment sent;
    sent.place = place;
    sent.bytes = std::make_shared<const std::string>("rules");
    sent.sent_raw = parse::HashBytes(*sent.bytes, parse::Domain::kSame);
    sent.num_tokens = 2'000;
    branch.request.segments.push_back(sent);
    history::CallerForm form;
    form.caller = std::make_shared<const std::string>(callers);
    branch.forms.push_back(form);
  }

  TokenUsage Direct(DirectCaches& caches, const Request* before, const TokenUsage& usage) const {
    const auto received = ReceivedOf({.layout = layout,
                                      .body = "",
                                      .tenant = "t",
                                      .upstream = "u",
                                      .row = &row,
                                      .plan = planner::Plan()});
    return DirectUsage({.received = *received,
                        .now = branch,
                        .before = before == nullptr ? nullptr : &before->branch,
                        .usage = usage,
                        .now_us = branch.request.time_us + kSecondUs},
                       caches);
  }
};

TEST(DirectUsageTest, WhatTheGatewayHasKeptEqualIsNotReadDirectly) {
  DirectCaches caches;
  const Request first("12:00, rules", 0);
  const Request second("12:01, rules", 60);
  const TokenUsage cold{.uncached_tokens = 2'000};
  EXPECT_EQ(first.Direct(caches, nullptr, cold), cold);
  const TokenUsage read{.uncached_tokens = 80, .cache_read_tokens = 1'920};
  EXPECT_EQ(second.Direct(caches, &first, read), cold);
}

TEST(DirectUsageTest, WithoutAPriceNothingIsKept) {
  const Request request("rules", 0);
  const ledger::PriceRow row;
  for (const ledger::PriceRow* known : {static_cast<const ledger::PriceRow*>(nullptr), &row}) {
    EXPECT_FALSE(ReceivedOf({.layout = request.layout,
                             .body = "",
                             .tenant = "t",
                             .upstream = "u",
                             .row = known,
                             .plan = planner::Plan()}));
  }
}

TEST(DirectUsageTest, TheEqualFrontOfACallersTextIsRead) {
  DirectCaches caches;
  const std::string front(900, 'r');
  const Request first(front + std::string(100, 'a'), 0);
  const Request second(front + std::string(100, 'b'), 60);
  const TokenUsage cold{.uncached_tokens = 2'000};
  first.Direct(caches, nullptr, cold);
  const TokenUsage read{.uncached_tokens = 80, .cache_read_tokens = 1'920};
  const TokenUsage direct = second.Direct(caches, &first, read);
  EXPECT_EQ(direct.cache_read_tokens, 14 * 128) << "whole increments of nine tenths";
  EXPECT_EQ(direct.input_tokens(), 2'000);
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
