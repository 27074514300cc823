#include "gateway/service/whole_body.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::service {
namespace {

using protocol::form::ResponsesItem;

const std::vector<ResponsesItem> kContext = {
    {.id = "msg_1", .json = R"({"id":"msg_1","type":"message","role":"user","content":"one"})"},
    {.id = "msg_2",
     .json = R"({"type":"message","role":"assistant","content":"two","id":"msg_2"})"}};
const std::vector<ResponsesItem> kInput = {
    {.id = "msg_3", .json = R"({"id":"msg_3","role":"user","content":[{"id":"x"}]})"}};

TEST(WholeBodyTest, HoldsAllTurnsInOrderAndNoNameOfWhatIsStored) {
  const std::string body =
      R"({ "model": "m", "previous_response_id": "resp_1", "input" : "three", "conversation":null,
          "temperature" : 1.50 })";
  EXPECT_EQ(WholeBody(body, kContext, kInput),
            R"({"model":"m","temperature":1.50,"input":[)"
            R"({"type":"message","role":"user","content":"one"},)"
            R"({"type":"message","role":"assistant","content":"two"},)"
            R"({"role":"user","content":[{"id":"x"}]}]})");
}

TEST(WholeBodyTest, IsTheSameWhetherTheTurnsAreStoredOrSent) {
  std::vector<ResponsesItem> all = kContext;
  all.insert(all.end(), kInput.begin(), kInput.end());
  EXPECT_EQ(WholeBody(R"({"model":"m","input":"three","previous_response_id":"resp_1"})", kContext,
                      kInput),
            WholeBody(R"({"model":"m","input":[]})", {}, all));
}

TEST(WholeBodyTest, ThereIsNoneOfWhatIsNoObject) {
  EXPECT_EQ(WholeBody("[]", {}, kInput), std::nullopt);
  EXPECT_EQ(WholeBody(R"({"input":)", {}, kInput), std::nullopt);
  EXPECT_EQ(WholeBody("{}", {}, std::vector<ResponsesItem>{{.id = "a", .json = "1"}}),
            std::nullopt);
  EXPECT_EQ(WholeBody("{}", {}, {}), R"({"input":[]})");
}

}  // namespace
}  // namespace kvgate::service
