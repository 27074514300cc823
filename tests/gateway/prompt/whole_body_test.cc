#include "gateway/prompt/whole_body.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace kvgate::prompt {
namespace {

using Items = std::vector<std::string_view>;

constexpr std::string_view kOne =
    R"({"id":"msg_1","type":"message","role":"user","content":"one"})";
constexpr std::string_view kTwo = R"({"role":"assistant","content":"two","id":"msg_2"})";
constexpr std::string_view kThree = R"({"id":"msg_3","role":"user","content":[{"id":"x"}]})";

TEST(WholeBodyTest, HoldsAllTurnsInOrderAndNoNameOfWhatIsStored) {
  const std::string body =
      R"({ "model": "m", "previous_response_id": "resp_1", "input" : "three", "conversation":null,
          "temperature" : 1.50 })";
  EXPECT_EQ(WholeBody(body, Items{kOne, kTwo, kThree}),
            R"({"model":"m","temperature":1.50,"input":[)"
            R"({"type":"message","role":"user","content":"one"},)"
            R"({"role":"assistant","content":"two"},)"
            R"({"role":"user","content":[{"id":"x"}]}]})");
}

TEST(WholeBodyTest, IsTheSameWhetherTheTurnsAreStoredOrSent) {
  EXPECT_EQ(WholeBody(R"({"model":"m","input":"one","previous_response_id":"resp_1"})",
                      Items{kOne, kTwo}),
            WholeBody(R"({"model":"m","input":[]})", Items{kOne, kTwo}));
}

TEST(WholeBodyTest, ThereIsNoneOfWhatIsNoObject) {
  EXPECT_EQ(WholeBody("[]", Items{kOne}), std::nullopt);
  EXPECT_EQ(WholeBody(R"({"input":)", Items{kOne}), std::nullopt);
  EXPECT_EQ(WholeBody("{}", Items{"1"}), std::nullopt);
  EXPECT_EQ(WholeBody("{}", {}), R"({"input":[]})");
  EXPECT_EQ(WholeBody("{}", Items{R"({"id":"a"})"}), R"({"input":[{}]})");
}

}  // namespace
}  // namespace kvgate::prompt
