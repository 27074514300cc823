// POST /kvgate/v1/sessions/KEY/memory/extract
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/seal.h"
#include "gateway/session/memory/memory_book.h"
#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::handler::extraction {
namespace {

using nlohmann::json;
using session::memory::MemoryBook;
using test::SessionProxy;
using test::TestSink;
using ::testing::HasSubstr;

const json kSchema = {{"type", "object"},
                      {"properties",
                       {{"name", {{"type", "string"}}},
                        {"age", {{"type", "integer"}}},
                        {"city", {{"type", "string"}}}}}};

class MemoryExtractionTest : public ::testing::Test {
 protected:
  explicit MemoryExtractionTest(
      std::string answer = R"({"name":"Ann","age":"old","city":null,"shoes":44})")
      : book_(MemoryBook::Open({.meta = meta_}).value()),
        session_({.pieces = {std::move(answer)}}, {}, {}, true, {.memory = {.book = book_.get()}}) {
  }

  std::unique_ptr<TestSink> Extract(const json& body) {
    return session_.Ask({.path = "/kvgate/v1/sessions/k/memory/extract",
                         .body = body.dump(),
                         .fields = {{"content-type", "application/json"}},
                         .id = fmt::format("{:024x}", ++session_.last_id)});
  }
  MemoryBook::Place place() const { return {.tenant = session_.tenant, .session = "k"}; }

  store::MemoryMetaStore meta_;
  std::unique_ptr<MemoryBook> book_;
  SessionProxy session_;
};

TEST_F(MemoryExtractionTest, WhatTheModelFindsBecomesMemory) {
  session_.Say(R"({"model":"local","messages":[{"role":"user","content":"My name is Ann."}]})");
  const std::string before = session_.Prompt();
  ASSERT_TRUE(book_->Update(place(), [](session::memory::Memory& memory) -> Result<void> {
    memory.entries = {{.name = "city", .value = R"("Lisbon")"}, {.name = "tea", .value = "1"}};
    return {};
  }));
  const auto made = Extract({{"schema", kSchema}});
  ASSERT_EQ(made->status, 200) << made->body;
  const json shown = json::parse(made->body);
  EXPECT_EQ(shown["facts"], (json{{"tea", 1}, {"name", "Ann"}}));
  EXPECT_EQ(shown["changed"], json::array({"name", "city"}));
  EXPECT_EQ(shown["refused"], json::array({"age", "shoes"}));
  // The question stands behind the conversation, which is as it was.
  EXPECT_THAT(session_.Prompt(), HasSubstr("user: My name is Ann."));
  EXPECT_THAT(session_.Prompt(), HasSubstr("Known so far: {\"city\":\"Lisbon\"}"));
  EXPECT_EQ(session_.num_turns(), 1u);
  // What is known already changes nothing.
  const auto again = Extract({{"schema", kSchema}});
  EXPECT_EQ(json::parse(again->body)["changed"], json::array()) << again->body;
}

TEST_F(MemoryExtractionTest, BadInputNamesItsField) {
  EXPECT_EQ(Extract({{"schema", kSchema}})->status, 404);  // there is no such session
  session_.Say(R"({"model":"local","messages":[{"role":"user","content":"Hi"}]})");
  const auto refused = Extract({{"schema", {{"properties", {{"a", {{"not", json::object()}}}}}}}});
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr(R"("param":"schema.properties.a.not")"));
}

class NoFactsTest : public MemoryExtractionTest {
 protected:
  NoFactsTest() : MemoryExtractionTest("I do not know.") {}
};

TEST_F(NoFactsTest, AnAnswerWithoutAnObjectChangesNothing) {
  session_.Say(R"({"model":"local","messages":[{"role":"user","content":"Hi"}]})");
  const auto made = Extract({{"schema", kSchema}});
  EXPECT_EQ(made->status, 503);
  EXPECT_THAT(made->body, HasSubstr("no JSON object"));
  EXPECT_TRUE(book_->Get(place())->entries.empty());
}

}  // namespace
}  // namespace kvgate::proxy::handler::extraction
