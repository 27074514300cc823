#include "gateway/proxy/handler/data/memory_data.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/store/memory_meta_store.h"

namespace kvgate::proxy::handler::data {
namespace {

using nlohmann::json;
using request::Route;
using session::memory::MemoryBook;

class MemoryDataTest : public ::testing::Test {
 protected:
  request::Response Ask(Route route, request::RoutePlace place, std::string_view body = "") {
    return AnswerMemory(
        {.sessions = &sessions, .tenant = "t", .route = route, .place = place, .body = body});
  }
  store::MemoryMetaStore meta;
  std::unique_ptr<MemoryBook> book = *MemoryBook::Open({.meta = meta});
  session::Sessions sessions{{.memory = {.book = book.get()}}};
};

TEST_F(MemoryDataTest, EachRouteDoesWhatItsMethodSays) {
  const request::RoutePlace place{.argument = "s"};
  EXPECT_EQ(Ask(Route::kMemoryPut, place, R"({"facts":{"a":1,"b":2,"c":3}})").status, 200);
  EXPECT_EQ(Ask(Route::kMemoryPatch, place, R"({"facts":{"a":null}})").status, 200);
  EXPECT_EQ(Ask(Route::kMemoryRemove, {.argument = "s", .item = "b"}).status, 200);
  EXPECT_EQ(json::parse(Ask(Route::kMemory, place).body)["facts"], json::parse(R"({"c":3})"));
  EXPECT_TRUE(json::parse(Ask(Route::kMemory, {}).body)["facts"].empty());  // the tenant's
  EXPECT_EQ(Ask(Route::kMemoryClear, place).status, 200);
  EXPECT_TRUE(json::parse(Ask(Route::kMemory, place).body)["facts"].empty());
}

TEST_F(MemoryDataTest, ErrorsHaveTheirStatus) {
  EXPECT_EQ(Ask(Route::kMemoryPut, {.argument = "s"}, "no").status, 400);
  EXPECT_EQ(Ask(Route::kMemoryRemove, {.argument = "s", .item = "none"}).status, 404);
  EXPECT_EQ(Ask(Route::kMemory, {.argument = "a b"}).status, 400);
  EXPECT_EQ(Ask(Route::kMemory, {.argument = "resp_kv0123"}).status, 400);
}

TEST_F(MemoryDataTest, WithoutADataDirectoryThereIsNone) {
  session::Sessions none{session::Sessions::Options{}};
  EXPECT_EQ(AnswerMemory({.sessions = &none, .tenant = "t", .place = {}}).status, 400);
  EXPECT_EQ(AnswerMemory({.sessions = nullptr, .tenant = "t", .place = {}}).status, 400);
}

}  // namespace
}  // namespace kvgate::proxy::handler::data
