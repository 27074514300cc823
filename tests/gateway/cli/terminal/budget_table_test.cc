#include "gateway/cli/terminal/budget_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace kvgate::cli::terminal {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr int64_t kNowUs = int64_t{1'764'259'200} * 1'000'000;  // 2025-11-27T16:00:00Z

Json Budget(const char* name, double used, double limit, const char* renews_at) {
  return {{"budget", name},
          {"used", used},
          {"limit", limit},
          {"share", used / limit},
          {"renews_at", renews_at}};
}

std::vector<std::string> Lines(const Json& answer) {
  std::istringstream text(BudgetTable(answer, kNowUs));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    lines.push_back(line);
  }
  return lines;
}

TEST(BudgetTableTest, WithoutBudgetsItSaysWhereTheyAreSet) {
  EXPECT_THAT(BudgetTable({{"data", Json::array()}}, kNowUs), HasSubstr("[budgets]"));
  EXPECT_THAT(BudgetTable({{"data", {{{"tenant", "a"}, {"budgets", Json::array()}}}}}, kNowUs),
              HasSubstr("no budgets"));
}

TEST(BudgetTableTest, TheFullestStandsFirstWithWhatItHasPassed) {
  const Json answer = {
      {"thresholds", {0.5, 0.8, 1.0}},
      {"data",
       {{{"tenant", "alice"},
         {"budgets",
          {Budget("dollars_per_day", 3.2, 10, "2025-11-28T00:00:00Z"),
           Budget("tokens_per_month", 41'000'000, 50'000'000, "2025-12-01T00:00:00Z")}}},
        {{"tenant", "bob"},
         {"budgets", {Budget("dollars_per_month", 5.25, 5, "2025-12-01T00:00:00Z")}}}}}};
  const std::vector<std::string> lines = Lines(answer);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], StartsWith("TENANT"));
  EXPECT_THAT(lines[1],
              MatchesRegex("bob +dollars a month +.5[.]25.* +.5[.]0.* +105.* %  in 3 d +used up"));
  EXPECT_THAT(lines[2], MatchesRegex("alice +tokens a month +41[.]0M +50[.]0M +82.* %.* >80 %"));
  EXPECT_THAT(lines[3], MatchesRegex("alice +dollars a day +.3[.]2.* +.10[.]0.* +32.* %  in 8 h"));
}

TEST(BudgetTableTest, NamesOfOthersAndNumbersThatAreNoneDoNoHarm) {
  const Json answer = {{"data",
                        {{{"tenant", std::string(64, 'x') + "\x1b[2J"},
                          {"budgets", {{{"budget", "\x1b[31m"}, {"renews_at", "soon"}}, 7}}}}}};
  const std::vector<std::string> lines = Lines(answer);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(Lines(Json("not an object")).size(), 1u);
}

}  // namespace
}  // namespace kvgate::cli::terminal
