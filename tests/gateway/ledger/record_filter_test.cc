#include "gateway/ledger/record_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/seal.h"
#include "gateway/ledger/record_format.h"

namespace kvgate::ledger {
namespace {

RequestRecord Record() {
  RequestRecord record;
  record.id = "id1";
  record.time_us = 1'000;
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.upstream = "main";
  record.model = "claude";
  record.asked_model = "best";
  record.tenant = "t";
  record.key = "k";
  record.session = "s";
  record.prompt_name = "support";
  record.prompt_version = "3";
  record.mode = "pin";
  record.conversation = "c0ffee";
  record.status = 200;
  record.prefix_break = RecordBreak{.cause = "system_changed"};
  return record;
}

bool Fits(std::initializer_list<std::pair<std::string_view, std::string_view>> parameters,
          const RequestRecord& record) {
  RecordFilter filter;
  for (const auto& [name, value] : parameters) EXPECT_TRUE(filter.Take(name, value).value());
  const bool fits = filter.Fits(record);
  // What fits is never passed over undecoded.
  EXPECT_TRUE(!fits || filter.MayFit(EncodeRecord(record, *Keyring::Generate())));
  return fits;
}

TEST(RecordFilterTest, EachParameterChooses) {
  const RequestRecord record = Record();
  for (const auto& [name, right] :
       {std::pair("upstream", "main"), std::pair("model", "claude"), std::pair("model", "best"),
        std::pair("tenant", "t"), std::pair("key", "k"), std::pair("session", "s"),
        std::pair("conversation", "c0ffee"), std::pair("break", "system_changed"),
        std::pair("break", "any"), std::pair("endpoint", "messages"), std::pair("status", "200"),
        std::pair("prompt_name", "support"), std::pair("prompt_version", "3"),
        std::pair("since_us", "1000"), std::pair("until_us", "1001"), std::pair("key", "")}) {
    EXPECT_TRUE(Fits({{name, right}}, record)) << name << "=" << right;
  }
  for (const auto& [name, wrong] :
       {std::pair("upstream", "mai"), std::pair("model", "x"), std::pair("tenant", "tt"),
        std::pair("key", "x"), std::pair("session", "x"), std::pair("conversation", "c0"),
        std::pair("break", "ttl"), std::pair("endpoint", "responses"), std::pair("status", "404"),
        std::pair("status", "failed"), std::pair("prompt_name", "other"),
        std::pair("prompt_version", "4"), std::pair("since_us", "1001"),
        std::pair("until_us", "1000")}) {
    EXPECT_FALSE(Fits({{name, wrong}}, record)) << name << "=" << wrong;
  }
  EXPECT_FALSE(Fits({{"upstream", "main"}, {"status", "500"}}, record));
}

TEST(RecordFilterTest, AnyBreakIsOneThatLostSomething) {
  RequestRecord record = Record();
  record.prefix_break->cause = "none";
  EXPECT_FALSE(Fits({{"break", "any"}}, record));
  EXPECT_TRUE(Fits({{"break", "none"}}, record));
  record.prefix_break.reset();
  EXPECT_FALSE(Fits({{"break", "none"}}, record));
}

TEST(RecordFilterTest, FailedIsAStatusOfAnErrorOrAnAnswerThatWasCut) {
  RequestRecord record = Record();
  record.outcome = "upstream_cut";
  EXPECT_TRUE(Fits({{"status", "failed"}}, record));
  record.outcome = "complete";
  record.status = 429;
  EXPECT_TRUE(Fits({{"status", "failed"}}, record));
}

TEST(RecordFilterTest, UnknownNamesAreNotTakenAndBadValuesAreNamed) {
  RecordFilter filter;
  EXPECT_FALSE(filter.Take("colour", "red").value());
  for (const char* name : {"status", "since_us", "until_us"}) {
    for (const char* value : {"x", "-1", "1.5", "9x"}) {
      const auto taken = filter.Take(name, value);
      ASSERT_FALSE(taken) << name << value;
      EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(taken.error().field, name);
    }
  }
}

TEST(RecordFilterTest, ARestrictedOneShowsNothingOfOthersWhateverIsAsked) {
  RecordFilter filter;
  ASSERT_TRUE(filter.Take("tenant", "t"));
  filter.Restrict("mine");
  EXPECT_FALSE(filter.Fits(Record()));
  RequestRecord own = Record();
  own.tenant = "mine";
  EXPECT_FALSE(filter.Fits(own)) << "it asks for another's";
  RecordFilter all;
  all.Restrict("mine");
  EXPECT_TRUE(all.Fits(own));
}

}  // namespace
}  // namespace kvgate::ledger
