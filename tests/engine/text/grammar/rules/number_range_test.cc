#include "engine/text/grammar/rules/number_range.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {
namespace {

std::optional<mask::Automaton> BuildRange(const std::function<Result<ExprId>(Grammar&)>& make) {
  Grammar grammar;
  const RuleId root = grammar.AddRule("root");
  const auto body = make(grammar);
  EXPECT_TRUE(body.has_value());
  grammar.SetBody(root, *body);
  grammar.SetRoot(root);
  auto automaton = mask::Automaton::Build(grammar, {});
  if (!automaton) return std::nullopt;
  return std::move(*automaton);
}

TEST(NumberRangeTest, IntegersAreExactlyTheMultiplesInTheRange) {
  std::mt19937 random(6);
  for (int round = 0; round < 150; ++round) {
    const int64_t a = static_cast<int64_t>(random() % 2400) - 1200;
    const int64_t b = a + static_cast<int64_t>(random() % 1500);
    const bool exclusive = random() % 2 == 0;
    const uint64_t multiple = random() % 3 == 0 ? 1 + random() % 40 : 1;
    NumberRange range;
    if (random() % 5 != 0) range.lower = {.value = ToDecimal(a), .exclusive = exclusive};
    if (random() % 5 != 0) range.upper = {.value = ToDecimal(b), .exclusive = false};
    const auto automaton =
        BuildRange([&](Grammar& grammar) { return AddIntegerRange(grammar, range, multiple); });
    std::optional<mask::StateTable> states;
    if (automaton) states.emplace(*automaton);
    for (int64_t n = -3000; n <= 3000; n += 1 + static_cast<int64_t>(random() % 9)) {
      const bool wanted = (!range.lower || (exclusive ? n > a : n >= a)) &&
                          (!range.upper || n <= b) && n % static_cast<int64_t>(multiple) == 0;
      ASSERT_EQ(states && Takes(*states, std::to_string(n)), wanted)
          << n << " in " << a << ".." << b << " by " << multiple;
    }
    if (automaton) {
      EXPECT_FALSE(Takes(*automaton, "-0"));
      EXPECT_FALSE(Takes(*automaton, "007"));
    }
  }
}

TEST(NumberRangeTest, NumbersAreThoseInTheRange) {
  std::mt19937 random(7);
  int num_taken = 0;
  for (int round = 0; round < 150; ++round) {
    const double scale = std::pow(10.0, static_cast<double>(random() % 5));
    const auto draw = [&] { return (static_cast<double>(random() % 20001) - 10000) / scale; };
    const double a = draw();
    const double b = a + std::abs(draw());
    const bool from_open = random() % 2 == 0;
    const bool to_open = random() % 2 == 0;
    NumberRange range;
    if (random() % 5 != 0) range.lower = {.value = ToDecimal(a), .exclusive = from_open};
    if (random() % 5 != 0) range.upper = {.value = ToDecimal(b), .exclusive = to_open};
    const auto automaton = BuildRange(
        [&](Grammar& grammar) { return Result<ExprId>(AddNumberRange(grammar, range)); });
    std::optional<mask::StateTable> states;
    if (automaton) states.emplace(*automaton);
    for (int probe = 0; probe < 200; ++probe) {
      double value = probe == 0 ? a : probe == 1 ? b : draw();
      const std::string text = fmt::format("{}", value == 0 ? 0.0 : value);
      if (text.find('e') != std::string::npos) continue;
      const auto num_digits =
          std::count_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (num_digits > 15) continue;  // the grammar writes no number with so many digits
      const bool wanted = (!range.lower || (from_open ? value > a : value >= a)) &&
                          (!range.upper || (to_open ? value < b : value <= b));
      ASSERT_EQ(states && Takes(*states, text), wanted)
          << text << " in " << a << ".." << b << from_open << to_open;
      num_taken += wanted ? 1 : 0;
    }
  }
  EXPECT_GT(num_taken, 2500);
}

TEST(NumberRangeTest, ADecimalIsTheShortestThatReadsBack) {
  for (const auto& [number, whole, fraction] :
       {std::tuple<double, std::string, std::string>{0.1, "0", "1"},
        {-0.0, "0", ""},
        {1e21, "1000000000000000000000", ""},
        {-12.5, "12", "5"},
        {1e-7, "0", "0000001"},
        {100, "100", ""},
        {0.1 + 0.2, "0", "30000000000000004"}}) {
    const Decimal decimal = ToDecimal(number);
    EXPECT_EQ(decimal.whole, whole);
    EXPECT_EQ(decimal.fraction, fraction);
    EXPECT_EQ(decimal.negative, number < 0);
  }
}

TEST(NumberRangeTest, WhatCannotBeToldApartIsRefusedOrLeftOut) {
  Grammar grammar;
  NumberRange range;
  const auto integers = [&] {
    return BuildRange([&](Grammar& made) { return AddIntegerRange(made, range, 1); });
  };
  range.lower = {.value = ToDecimal(int64_t{1} << 60), .exclusive = true};
  EXPECT_FALSE(integers());  // more than 18 digits
  const int64_t large = int64_t{1} << 58;
  range.lower = {.value = ToDecimal(large), .exclusive = true};
  const auto above = integers();
  ASSERT_TRUE(above);
  EXPECT_FALSE(Takes(*above, std::to_string(large + 1)));  // a double rounds it to 2^58
  EXPECT_TRUE(Takes(*above, std::to_string(large + 256)));
  EXPECT_FALSE(AddIntegerRange(grammar, {}, kMultipleMax + 1).has_value());
  range.lower = {.value = ToDecimal(1e30)};
  EXPECT_FALSE(
      BuildRange([&](Grammar& made) { return Result<ExprId>(AddNumberRange(made, range)); }));
}

}  // namespace
}  // namespace kvgate::grammar::rules
