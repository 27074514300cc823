#include "gateway/session/memory/extraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBody =
    R"({"schema":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}},
        "instructions":"Names in capitals."})";

TEST(ExtractionTest, TheQuestionSaysTheSchemaAndWhatIsKnownOfIt) {
  const Extraction extraction = Extraction::Read(kBody).value();
  const Entries known = {{.name = "name", .value = R"("Ann")"},
                         {.name = "secret", .value = R"("not asked about")"}};
  const std::string question = extraction.Question(known);
  EXPECT_THAT(question, HasSubstr(R"({"type":"object","properties":{"name":)"));
  EXPECT_THAT(question, HasSubstr(R"(Known so far: {"name":"Ann"})"));
  EXPECT_THAT(question, Not(HasSubstr("secret")));
  EXPECT_THAT(question, HasSubstr("\nNames in capitals."));
}

TEST(ExtractionTest, AnAnswerIsReadWithWhatStandsAroundIt) {
  const Extraction extraction = Extraction::Read(kBody).value();
  for (const char* text :
       {R"({"name":"Ann","age":null,"city":"Lisbon"})",
        "```json\n{\"name\":\"Ann\",\"age\":null,\"city\":\"Lisbon\"}\n```",
        "I look at {this} and {\"name\": \"X\"} first.\n"
        "{\"name\":\"Ann\",\"age\":null,\"city\":\"a } in \\\"it\"} That is all. {"}) {
    const auto found = extraction.ReadAnswer(text);
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(found->changes,
              (Entries{{.name = "name", .value = R"("Ann")"}, {.name = "age", .value = "null"}}));
    EXPECT_THAT(found->refused, ElementsAre("city"));
  }
  EXPECT_THAT(extraction.ReadAnswer(R"({"age":"old"})")->refused, ElementsAre("age"));
  EXPECT_TRUE(extraction.ReadAnswer("{}")->changes.empty());
  for (const char* text : {"", "Nothing.", "{", "[1]", "{name: Ann}"}) {
    EXPECT_FALSE(extraction.ReadAnswer(text).has_value()) << text;
  }
}

TEST(ExtractionTest, BadInputNamesItsField) {
  const auto field = [](const char* body) {
    const auto read = Extraction::Read(body);
    EXPECT_FALSE(read.has_value()) << body;
    return read.has_value() ? std::string("none") : read.error().field;
  };
  EXPECT_EQ(field("x"), "");
  EXPECT_EQ(field("{}"), "schema");
  EXPECT_EQ(field(R"({"schema":{"properties":{"a":{}}},"more":1})"), "more");
  EXPECT_EQ(field(R"({"schema":{"properties":{"a":{}}},"instructions":1})"), "instructions");
  EXPECT_EQ(field(R"({"schema":{"properties":{"a":{"not":{}}}}})"), "schema.properties.a.not");
}

}  // namespace
}  // namespace kvgate::session::memory
