#include "gateway/service/branches/branch_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/canonical.h"

namespace kvgate::service::branches {
namespace {

using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::SentSegment;
using prompt::parse::Identity;

constexpr Identity kOwn{.low = 1, .high = 1};
constexpr Identity kAlias{.low = 2, .high = 2};

// The rows of a branch whose requests each add a turn that went out in other bytes than it came.
class Rows {
 public:
  // `is_whole`: it holds everything, and the rows before stay.
  void Add(const std::string& text, bool is_whole = false) {
    auto branch = last_ ? std::make_shared<Branch>(*last_) : std::make_shared<Branch>();
    branch->token = rows.size() + 1;
    branch->request.time_us = static_cast<int64_t>(rows.size()) + 1;
    branch->mode = prompt::Mode::kPin;
    SentSegment sent;
    sent.place = {.section = prompt::parse::Section::kMessages, .field = "messages"};
    sent.sent_raw = prompt::parse::HashBytes(text, prompt::parse::Domain::kRaw);
    sent.bytes = std::make_shared<const std::string>(text);
    branch->request.segments.push_back(std::move(sent));
    branch->forms.push_back(CallerForm());
    BranchRow row = EncodeBranchRow({.branch = *branch,
                                     .base = is_whole ? nullptr : last_.get(),
                                     .base_token = last_ ? last_->token : 0,
                                     .keys = {kOwn, kAlias},
                                     .has_new_keys = false,
                                     .time_us = branch->request.time_us});
    rows.push_back(std::move(row.body));
    for (const KeptBytes& kept : row.bytes) texts[kept.id] = kept.bytes;
    last_ = std::move(branch);
  }
  Result<BranchLine> Read() const {
    return ReadBranchLine(rows, [&](std::span<const Identity> ids, KeptTexts& kept) {
      for (const Identity& id : ids) {
        kept[id] = texts.contains(id) ? texts.at(id) : nullptr;
      }
      return Result<void>();
    });
  }

  std::vector<std::string> rows;
  KeptTexts texts;

 private:
  std::shared_ptr<Branch> last_;
};

std::string TextOf(const Branch& branch) {
  std::string all;
  for (const SentSegment& segment : branch.request.segments) all += *segment.bytes;
  return all;
}

TEST(BranchReader, ReadsWhatEachRequestHasSentNewestFirst) {
  Rows rows;
  for (const char* text : {"a", "b", "c"}) rows.Add(text);
  const auto line = rows.Read();
  ASSERT_TRUE(line) << line.error().ToString();
  EXPECT_EQ(line->keys, (std::vector<Identity>{kOwn, kAlias}));
  ASSERT_EQ(line->branches.size(), 3U);
  EXPECT_EQ(TextOf(*line->branches[0]), "abc");
  EXPECT_EQ(TextOf(*line->branches[2]), "a");
  EXPECT_TRUE(line->branches[0]->is_restored);
}

TEST(BranchReader, WhatStandsBeforeARowThatHoldsAllIsReadAsWell) {
  Rows rows;
  for (const char* text : {"a", "b"}) rows.Add(text);
  rows.Add("c", true);
  rows.Add("d");
  const auto line = rows.Read();
  ASSERT_TRUE(line) << line.error().ToString();
  ASSERT_EQ(line->branches.size(), 4U);
  EXPECT_EQ(TextOf(*line->branches[0]), "abcd");
  EXPECT_EQ(TextOf(*line->branches[2]), "ab");
  ReadBranch read;
  for (const std::string& row : rows.rows) ASSERT_TRUE(ReadBranchRow(row, read));
  std::sort(read.bytes.begin(), read.bytes.end());
  const auto end = std::unique(read.bytes.begin(), read.bytes.end());
  EXPECT_EQ(end - read.bytes.begin(), 4) << "the bytes of all rows";
}

TEST(BranchReader, OfManyTheNewestAreRead) {
  Rows rows;
  for (int i = 0; i < 40; ++i) rows.Add(std::string(1, static_cast<char>('a' + i % 26)));
  const auto line = rows.Read();
  ASSERT_TRUE(line);
  EXPECT_EQ(line->branches.size(), 17U);
  EXPECT_EQ(TextOf(*line->branches[0]).size(), 40U);
}

TEST(BranchReader, AHoleIsDamage) {
  Rows rows;
  for (const char* text : {"a", "b", "c"}) rows.Add(text);
  rows.rows.erase(rows.rows.begin() + 1);
  const auto line = rows.Read();
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(ReadBranchLine({}, nullptr));
}

TEST(BranchReader, MissingTextsOfTheLastRowAreDamage) {
  Rows rows;
  for (const char* text : {"a", "b"}) rows.Add(text);
  rows.texts.clear();
  const auto line = rows.Read();
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kDataLoss);
}

TEST(BranchReader, LinesOfOneConversationAreOne) {
  std::vector<Recalled> recalled;
  const std::vector<Identity> asked = {kAlias};
  for (int i = 0; i < 2; ++i) {
    Rows rows;
    rows.Add("a");
    AddLine(*rows.Read(), asked, recalled);
  }
  ASSERT_EQ(recalled.size(), 1U);
  EXPECT_EQ(recalled[0].branches.size(), 2U);
  EXPECT_EQ(recalled[0].keys, (std::vector<Identity>{kOwn, kAlias}));
  EXPECT_EQ(recalled[0].branches[1]->conversation, kOwn);
}

}  // namespace
}  // namespace kvgate::service::branches
