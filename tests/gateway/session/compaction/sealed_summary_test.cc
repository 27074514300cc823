#include "gateway/session/compaction/sealed_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::compaction {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const SealedSummary kSummary = {.text = "A parser \u2014 mended.", .covers = Covers::kBesidesUser};

TEST(SealedSummaryTest, WhatIsSealedOpensForItsTenant) {
  const auto ring = Keyring::Generate();
  for (const Covers covers : {Covers::kAll, Covers::kBesidesUser}) {
    const SealedSummary summary{.text = kSummary.text, .covers = covers};
    const std::string sealed = Seal(*ring, "alice", summary);
    EXPECT_TRUE(IsOurs(sealed));
    EXPECT_EQ(sealed.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789+/=."),
              std::string::npos);
    const auto opened = Open(*ring, "alice", sealed);
    ASSERT_TRUE(opened) << opened.error().ToString();
    EXPECT_EQ(*opened, summary);
  }
}

TEST(SealedSummaryTest, NothingElseOpensAndTheErrorSaysWhatToDo) {
  const auto ring = Keyring::Generate();
  const std::string sealed = Seal(*ring, "alice", kSummary);
  const auto why = [&](const Keyring& with, std::string_view tenant, std::string_view text) {
    const auto opened = Open(with, tenant, text);
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(opened.error().detail, Not(HasSubstr("parser")));
    return opened.error().detail;
  };
  EXPECT_THAT(why(*ring, "bob", sealed), HasSubstr("another caller"));
  EXPECT_THAT(why(*Keyring::Generate(), "alice", sealed), HasSubstr("store.secret_env"));
  EXPECT_THAT(why(*ring, "alice", "kvg2.AAAA"), HasSubstr("Update"));
  EXPECT_THAT(why(*ring, "alice", sealed + "!"), HasSubstr("byte for byte"));
  EXPECT_THAT(why(*ring, "alice", kMark), HasSubstr("byte for byte"));
  // Any change of any byte.
  for (size_t i = kMark.size(); i < sealed.size(); i += 3) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const auto opened = Open(*ring, "alice", changed);
    // Bits behind the last whole byte say nothing.
    if (opened) {
      EXPECT_EQ(*opened, kSummary) << i;
      EXPECT_GE(i + 3, sealed.size());
    }
  }
}

TEST(SealedSummaryTest, OnlyOursAreOurs) {
  for (const char* other : {"", "gAAAAAB", "kvg", "kvg.", "kvgx.AA", "kvg1234.AA", "xkvg1.AA"}) {
    EXPECT_FALSE(IsOurs(other)) << other;
  }
  EXPECT_TRUE(IsOurs("kvg12.AA"));
}

}  // namespace
}  // namespace kvgate::session::compaction
