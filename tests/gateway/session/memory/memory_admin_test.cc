#include "gateway/session/memory/memory_admin.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/store/memory_meta_store.h"

namespace kvgate::session::memory {
namespace {

using nlohmann::json;

class MemoryAdminTest : public ::testing::Test {
 protected:
  static json Read(const Result<std::string>& body) {
    EXPECT_TRUE(body) << body.error().ToString();
    return body ? json::parse(*body) : json();
  }
  store::MemoryMetaStore meta;
  std::unique_ptr<MemoryBook> book = *MemoryBook::Open({.meta = meta});
  MemoryAdmin admin{book.get()};
  MemoryAdmin::Place session{.tenant = "t", .session = "s"};
};

TEST_F(MemoryAdminTest, PutReplacesAndPatchChanges) {
  json shown = Read(admin.Put(session, R"({"facts":{"a":1,"b":"x"},"retrieval":true})"));
  EXPECT_EQ(shown["facts"], json::parse(R"({"a":1,"b":"x"})"));
  EXPECT_EQ(shown["retrieval"], true);
  EXPECT_EQ(shown["session"], "s");
  EXPECT_TRUE(shown["updated_at"].is_number());
  shown = Read(admin.Patch(session, R"({"facts":{"a":null,"c":[1]}})"));
  EXPECT_EQ(shown["facts"], json::parse(R"({"b":"x","c":[1]})"));
  EXPECT_EQ(shown["retrieval"], true);
  shown = Read(admin.Patch(session, R"({"retrieval":null})"));
  EXPECT_TRUE(shown["retrieval"].is_null());
  EXPECT_EQ(shown["facts"].size(), 2u);
  shown = Read(admin.Put(session, R"({"facts":{"d":1}})"));
  EXPECT_EQ(shown["facts"], json::parse(R"({"d":1})"));
}

TEST_F(MemoryAdminTest, APatchMergesAsItsStandardSays) {
  Read(admin.Put(session,
                 R"({"facts":{"pet":{"kind":"dog","name":"Rex"},"n":1},"retrieval":true})"));
  json shown = Read(admin.Patch(session, R"({"facts":{"pet":{"name":null,"age":3}}})"));
  EXPECT_EQ(shown["facts"], json::parse(R"({"pet":{"kind":"dog","age":3},"n":1})"));
  // A fact may have any name.
  shown = Read(admin.Patch(session, R"({"facts":{"retrieval":"slow","facts":null}})"));
  EXPECT_EQ(shown["retrieval"], true);
  EXPECT_EQ(shown["facts"]["retrieval"], "slow");
  shown = Read(admin.Patch(session, R"({"facts":null})"));
  EXPECT_TRUE(shown["facts"].empty());
  EXPECT_EQ(shown["retrieval"], true);
}

TEST_F(MemoryAdminTest, ATenantsSwitchHoldsWhereASessionHasNone) {
  EXPECT_EQ(Read(admin.Put({.tenant = "t"}, R"({"retrieval":true})"))["retrieval"], true);
  EXPECT_EQ(book->Holding(session)->retrieves, true);
  Read(admin.Put(session, R"({"retrieval":false})"));
  EXPECT_EQ(book->Holding(session)->retrieves, false);
}

TEST_F(MemoryAdminTest, WhatHoldsForAllSessionsIsShownBeside) {
  Read(admin.Put({.tenant = "t"}, R"({"facts":{"name":"Ann"}})"));
  EXPECT_EQ(Read(admin.Show(session))["tenant_facts"], json::parse(R"({"name":"Ann"})"));
  EXPECT_FALSE(Read(admin.Show({.tenant = "t"})).contains("tenant_facts"));
  EXPECT_TRUE(Read(admin.Show({.tenant = "u", .session = "s"}))["tenant_facts"].empty());
}

TEST_F(MemoryAdminTest, OneFactOrAllAreRemoved) {
  Read(admin.Put(session, R"({"facts":{"a":1,"b":2}})"));
  EXPECT_EQ(Read(admin.Remove(session, "a"))["facts"], json::parse(R"({"b":2})"));
  const auto missing = admin.Remove(session, "a");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Read(admin.Clear(session))["facts"].empty());
  EXPECT_TRUE(Read(admin.Show(session))["updated_at"].is_null());
}

TEST_F(MemoryAdminTest, AWrongBodyNamesItsField) {
  const auto field_of = [&](std::string_view body) {
    const auto answer = admin.Patch(session, body);
    EXPECT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
    return answer.error().field;
  };
  EXPECT_EQ(field_of("[]"), "");
  EXPECT_EQ(field_of(R"({"facts":[]})"), "facts");
  EXPECT_EQ(field_of(R"({"facts":{"":1}})"), "facts.");
  EXPECT_EQ(field_of(R"({"retrieval":"on"})"), "retrieval");
  EXPECT_EQ(field_of(R"({"fact":{}})"), "fact");
}

TEST_F(MemoryAdminTest, WithoutABookThereIsAnError) {
  const MemoryAdmin none(nullptr);
  EXPECT_EQ(none.Show(session).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(none.Put(session, "{}").error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::session::memory
