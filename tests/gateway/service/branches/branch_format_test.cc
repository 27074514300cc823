#include "gateway/service/branches/branch_format.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::service::branches {
namespace {

using namespace prompt::parse;
using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::SentSegment;

std::shared_ptr<const std::string> Text(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

Identity RawOf(std::string_view text) { return HashBytes(text, Domain::kRaw); }

SentSegment Sent(std::string text) {
  SentSegment sent;
  sent.place = {.section = Section::kMessages, .field = "messages", .element = 3, .block = 1};
  sent.role = Role::kUser;
  sent.source = Source::kHistory;
  sent.content = Content::kText;
  sent.same = HashBytes(text, Domain::kSame);
  sent.stable = HashBytes(text, Domain::kStable);
  sent.said = HashBytes(text, Domain::kStable);
  sent.sent_raw = RawOf(text);
  sent.num_tokens = 17;
  sent.bytes = Text(std::move(text));
  return sent;
}

Branch ABranch() {
  Branch branch;
  branch.token = 7;
  branch.origin = 6;
  prompt::templates::Slot slot;
  slot.id = 77;
  slot.form = {.place = prompt::templates::Place::kTool,
               .mask = 1,
               .before = 2,
               .after = 3,
               .num_words = 4,
               .tokens = {5, prompt::templates::kAnyToken, 6}};
  slot.moves = true;
  branch.slots = std::make_shared<const prompt::templates::SlotSet>(
      prompt::templates::SlotSet::Slots{std::make_shared<const prompt::templates::Slot>(slot)});
  branch.line = {.low = 1, .high = 2};
  branch.mode = prompt::Mode::kStabilize;
  branch.rules_off = 5;
  branch.system_turn = ledger::SystemTurn::kClearAt;
  branch.held_since_us = 55;
  branch.lines_move = true;
  branch.tail = {"a line", "another"};
  branch.tool_keys = {{.low = 3, .high = 4}};
  branch.tools_order = {{.low = 3, .high = 4}, {.low = 5, .high = 6}};
  branch.request.time_us = 99;
  branch.request.upstream = "up";
  branch.request.model = "m";
  branch.request.endpoint = dialect::form::Endpoint::kMessages;
  branch.request.ttl_seconds = 300;
  branch.request.parameters = {{.name = "prompt_cache_key",
                                .value = "kvg-1",
                                .same = {.low = 8, .high = 9},
                                .is_ours = true}};
  SentSegment plain = Sent("plain");
  CallerForm as_received;
  as_received.raw = plain.sent_raw;
  branch.request.segments.push_back(plain);
  branch.forms.push_back(as_received);
  SentSegment moved = Sent("sent, with a line");
  moved.breakpoint = Breakpoint{.kind = BreakpointKind::kCacheControl, .ttl_seconds = 3600};
  moved.is_volatile = true;
  moved.has_volatile = true;
  moved.is_ours = true;
  moved.is_notice = true;
  CallerForm written;
  written.raw = RawOf("written");
  written.caller = Text("written");
  written.rule = Rule::kVolatileMoved;
  written.as_list = true;
  written.head_split = 12;
  written.held = {{VolatileKind::kTime, "10:00"}};
  written.unsaid = {"unsaid"};
  written.carried = {{.json = "carried", .slot = 3}, {.json = "too"}};
  auto text = std::make_shared<prompt::templates::TextState>();
  text->slots = {{.line = 4, .slot = 77, .moved = true, .first = {}},
                 {.line = 6, .slot = 78, .first = "as first sent"}};
  written.text = text;
  written.left = {{"<x>gone</x>", VolatileKind::kReminder}};
  branch.request.segments.push_back(moved);
  branch.forms.push_back(written);
  return branch;
}

ReadBranch ReadRows(const std::vector<std::string>& rows) {
  ReadBranch read;
  for (const std::string& row : rows) EXPECT_TRUE(ReadBranchRow(row, read));
  return read;
}

void ExpectEqual(const ReadBranch& read, const Branch& branch) {
  EXPECT_TRUE(read.is_whole);
  EXPECT_EQ(read.branch.token, branch.token);
  EXPECT_EQ(read.branch.origin, branch.origin);
  EXPECT_EQ(read.branch.line, branch.line);
  ASSERT_TRUE(read.branch.slots);
  ASSERT_EQ(read.branch.slots->slots().size(), 1U);
  EXPECT_EQ(*read.branch.slots->slots()[0], *branch.slots->slots()[0]);
  EXPECT_EQ(read.branch.mode, branch.mode);
  EXPECT_EQ(read.branch.rules_off, branch.rules_off);
  EXPECT_EQ(read.branch.system_turn, branch.system_turn);
  EXPECT_EQ(read.branch.held_since_us, branch.held_since_us);
  EXPECT_EQ(read.branch.lines_move, branch.lines_move);
  EXPECT_EQ(read.branch.tail, branch.tail);
  EXPECT_EQ(read.branch.tool_keys, branch.tool_keys);
  EXPECT_EQ(read.branch.tools_order, branch.tools_order);
  EXPECT_EQ(read.branch.request.upstream, branch.request.upstream);
  EXPECT_EQ(read.branch.request.model, branch.request.model);
  EXPECT_EQ(read.branch.request.endpoint, branch.request.endpoint);
  EXPECT_EQ(read.branch.request.ttl_seconds, branch.request.ttl_seconds);
  EXPECT_EQ(read.branch.request.time_us, branch.request.time_us);
  ASSERT_EQ(read.branch.request.parameters.size(), branch.request.parameters.size());
  EXPECT_EQ(read.branch.request.parameters[0].value, branch.request.parameters[0].value);
  EXPECT_TRUE(read.branch.request.parameters[0].is_ours);
  ASSERT_EQ(read.segments.size(), branch.request.segments.size());
  for (size_t i = 0; i < read.segments.size(); ++i) {
    SCOPED_TRACE(i);
    const SentSegment& sent = branch.request.segments[i];
    const CallerForm& form = branch.forms[i];
    const ReadBranch::Segment& segment = read.segments[i];
    EXPECT_EQ(segment.sent.place, sent.place);
    EXPECT_EQ(segment.sent.role, sent.role);
    EXPECT_EQ(segment.sent.source, sent.source);
    EXPECT_EQ(segment.sent.content, sent.content);
    EXPECT_EQ(segment.sent.same, sent.same);
    EXPECT_EQ(segment.sent.stable, sent.stable);
    EXPECT_EQ(segment.sent.said, sent.said);
    EXPECT_EQ(segment.sent.sent_raw, sent.sent_raw);
    EXPECT_EQ(segment.sent.breakpoint, sent.breakpoint);
    EXPECT_EQ(segment.sent.is_volatile, sent.is_volatile);
    EXPECT_EQ(segment.sent.has_volatile, sent.has_volatile);
    EXPECT_EQ(segment.sent.is_ours, sent.is_ours);
    EXPECT_EQ(segment.sent.is_notice, sent.is_notice);
    EXPECT_EQ(segment.sent.num_tokens, sent.num_tokens);
    EXPECT_EQ(segment.form.raw, form.raw);
    EXPECT_EQ(segment.form.rule, form.rule);
    EXPECT_EQ(segment.form.as_list, form.as_list);
    EXPECT_EQ(segment.form.head_split, form.head_split);
    EXPECT_EQ(segment.form.unsaid, form.unsaid);
    EXPECT_EQ(segment.form.carried, form.carried);
    ASSERT_EQ(segment.form.text == nullptr, form.text == nullptr);
    if (form.text) {
      EXPECT_EQ(segment.form.text->slots, form.text->slots);
    }
    ASSERT_EQ(segment.form.held.size(), form.held.size());
    ASSERT_EQ(segment.form.left.size(), form.left.size());
    if (!form.held.empty()) {
      EXPECT_EQ(segment.form.held[0].json, form.held[0].json);
    }
    if (!form.left.empty()) {
      EXPECT_EQ(segment.form.left[0].text, form.left[0].text);
    }
    EXPECT_EQ(segment.caller_bytes.has_value(), form.caller != nullptr);
  }
}

const std::vector<Identity> kKeys = {{.low = 10, .high = 11}, {.low = 12, .high = 13}};

TEST(BranchFormatTest, EverythingIsReadAsItWasWritten) {
  const Branch branch = ABranch();
  const BranchRow row = EncodeBranchRow({.branch = branch, .keys = kKeys, .time_us = 5});
  const ReadBranch read = ReadRows({row.body});
  ExpectEqual(read, branch);
  EXPECT_EQ(read.keys, kKeys);
  EXPECT_EQ(read.time_us, 5);
  EXPECT_TRUE(read.branch.is_restored);
}

TEST(BranchFormatTest, OnlyBytesThatTheNextRequestDoesNotCarryAreKept) {
  const BranchRow row = EncodeBranchRow({.branch = ABranch(), .keys = kKeys});
  ASSERT_EQ(row.bytes.size(), 2U);
  EXPECT_EQ(*row.bytes[0].bytes, "sent, with a line");
  EXPECT_EQ(*row.bytes[1].bytes, "written");
  EXPECT_EQ(row.body.find("plain"), std::string::npos);
  EXPECT_FALSE(row.respells);
}

TEST(BranchFormatTest, ARowHoldsWhatDiffersFromTheRowBefore) {
  const Branch first = ABranch();
  Branch second = first;
  second.token = 8;
  const SentSegment added = Sent("added");
  CallerForm form;
  form.raw = added.sent_raw;
  second.request.segments.push_back(added);
  second.forms.push_back(form);
  const BranchRow whole = EncodeBranchRow({.branch = first, .keys = kKeys});
  const BranchRow more =
      EncodeBranchRow({.branch = second, .base = &first, .base_token = 7, .keys = kKeys});
  EXPECT_LT(more.body.size(), whole.body.size());
  EXPECT_TRUE(more.bytes.empty());
  const ReadBranch read = ReadRows({whole.body, more.body});
  ExpectEqual(read, second);
  EXPECT_EQ(read.keys, kKeys);
  // Turns that were taken back, and everything that changes.
  Branch third = first;
  third.token = 9;
  third.tail = {"other"};
  third.tool_keys.clear();
  third.request.parameters[0].value = "kvg-2";
  const BranchRow less =
      EncodeBranchRow({.branch = third, .base = &second, .base_token = 8, .keys = kKeys});
  ExpectEqual(ReadRows({whole.body, more.body, less.body}), third);
}

TEST(BranchFormatTest, AFirstTurnIsReadUntilARequestIsNoFirstOneAnyMore) {
  Branch first = ABranch();
  first.first_turn = std::make_shared<const prompt::history::FirstTurn>(
      prompt::history::FirstTurn{.words = {.low = 1, .high = 2},
                                 .ends = {.low = 3, .high = 4},
                                 .users = {.num_lines = 90, .masks = {5, 6, 7}},
                                 .kin = {{.low = 8, .high = 9}}});
  Branch again = first;
  again.token = 8;
  again.tail = {"other"};
  Branch second = again;
  second.token = 9;
  second.first_turn = nullptr;
  const BranchRow one = EncodeBranchRow({.branch = first, .keys = kKeys});
  const BranchRow two =
      EncodeBranchRow({.branch = again, .base = &first, .base_token = 7, .keys = kKeys});
  const BranchRow three =
      EncodeBranchRow({.branch = second, .base = &again, .base_token = 8, .keys = kKeys});
  EXPECT_FALSE(three.is_empty);
  const auto read_turn = [](const std::vector<std::string>& rows) {
    return ReadRows(rows).branch.first_turn;
  };
  ASSERT_TRUE(read_turn({one.body}));
  EXPECT_EQ(*read_turn({one.body}), *first.first_turn);
  ASSERT_TRUE(read_turn({one.body, two.body}));
  EXPECT_EQ(*read_turn({one.body, two.body}), *first.first_turn);
  EXPECT_FALSE(read_turn({one.body, two.body, three.body}));
}

TEST(BranchFormatTest, ARequestThatBringsNothingNewNeedsNoRow) {
  const Branch first = ABranch();
  Branch again = first;
  again.token = 8;
  again.request.time_us = 100;
  const auto is_empty = [&](const Branch& now) {
    return EncodeBranchRow({.branch = now, .base = &first, .base_token = 7, .keys = kKeys})
        .is_empty;
  };
  EXPECT_TRUE(is_empty(again));
  EXPECT_FALSE(EncodeBranchRow({.branch = first, .keys = kKeys}).is_empty);
  Branch fewer = again;
  fewer.request.segments = {first.request.segments[0]};
  fewer.forms = {first.forms[0]};
  EXPECT_FALSE(is_empty(fewer));
  again.tail = {};
  EXPECT_FALSE(is_empty(again));
}

TEST(BranchFormatTest, AMissingRowMakesTheBranchIncompleteUntilAWholeOne) {
  const Branch first = ABranch();
  Branch second = first;
  second.token = 8;
  Branch third = first;
  third.token = 9;
  const BranchRow whole = EncodeBranchRow({.branch = first, .keys = kKeys});
  const BranchRow last =
      EncodeBranchRow({.branch = third, .base = &second, .base_token = 8, .keys = kKeys});
  EXPECT_FALSE(ReadRows({whole.body, last.body}).is_whole);
  EXPECT_FALSE(ReadRows({last.body}).is_whole);
  ExpectEqual(ReadRows({last.body, whole.body}), first);
}

TEST(BranchFormatTest, AClientThatSpellsAnewHasAllBytesKept) {
  Branch branch = ABranch();
  CallerForm respelled;
  respelled.raw = RawOf("an other spelling");
  respelled.rule = Rule::kFirstSeenBytes;
  branch.request.segments.push_back(Sent("first spelling"));
  branch.forms.push_back(respelled);
  const BranchRow row = EncodeBranchRow({.branch = branch, .keys = kKeys});
  EXPECT_TRUE(row.respells);
  EXPECT_EQ(row.bytes.size(), 4U);
  EXPECT_TRUE(ReadRows({row.body}).respells);
}

TEST(BranchFormatTest, BytesThatAreNoRowAreRefused) {
  const std::string row = EncodeBranchRow({.branch = ABranch(), .keys = kKeys}).body;
  for (size_t size = 0; size < row.size(); ++size) {
    ReadBranch read;
    const auto taken = ReadBranchRow(row.substr(0, size), read);
    ASSERT_FALSE(taken) << size;
    EXPECT_EQ(taken.error().code, ErrorCode::kDataLoss);
    EXPECT_FALSE(read.is_whole);
  }
  for (size_t at = 0; at < row.size(); ++at) {
    std::string changed = row;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    ReadBranch read;
    (void)ReadBranchRow(changed, read);  // the seal finds it; reading it must do no harm
  }
  ReadBranch read;
  EXPECT_FALSE(ReadBranchRow(std::string(1, '\x7f') + std::string(4, '\0'), read));
}

}  // namespace
}  // namespace kvgate::service::branches
