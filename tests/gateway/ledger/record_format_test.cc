#include "gateway/ledger/record_format.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <string_view>

namespace kvgate::ledger {
namespace {

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

std::string RandomText(std::mt19937& random) {
  std::string text(random() % 40, ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

void AddPreparation(std::mt19937& random, RequestRecord& record) {
  const auto number = [&] { return static_cast<int64_t>(random()) << (random() % 20); };
  if (random() % 2 == 0) {
    record.mode = RandomText(random) + "pin";
    record.conversation = RandomText(random);
    record.conversation_origin = RandomText(random);
  }
  if (random() % 2 == 0) {
    record.plan = RecordPlan{.reason = RandomText(random),
                             .expected_reuse = static_cast<double>(random()) / 7,
                             .num_breakpoints = static_cast<int64_t>(random() % 5)};
  }
  if (random() % 2 == 0) {
    RecordBreak& found = record.prefix_break.emplace();
    for (std::string* text : {&found.cause, &found.path, &found.volatile_kind, &found.before,
                              &found.after, &found.verdict}) {
      *text = RandomText(random);
    }
    found.reusable_tokens = number();
    found.lost_tokens = number();
    found.lost_nanodollars = -number();
  }
  for (size_t i = random() % 4; i > 0; --i) {
    record.attribution.push_back({.source = RandomText(random),
                                  .cached = number(),
                                  .written = number(),
                                  .uncached = number(),
                                  .nanodollars = number()});
  }
  if (random() % 2 == 0) record.provider_reason = RandomText(random);
  if (random() % 2 == 0) record.held_stale = RecordHold{.num_lines = 3, .seconds = number()};
  if (random() % 2 == 0) record.key = RandomText(random);
  if (random() % 2 == 0) record.session = RandomText(random);
  if (random() % 2 == 0) record.prompt = RandomText(random);
  if (random() % 2 == 0) record.asked_model = RandomText(random);
  if (random() % 2 == 0) {
    record.prompt_name = RandomText(random) + "a";
    record.prompt_version = RandomText(random);
  }
  if (random() % 2 == 0) record.timings.tpot_us = number();
  if (random() % 2 == 0) record.timings.itl_us_max = number();
  if (random() % 2 == 0) {
    record.tiers = TierTokens{.device = number(), .shared = number(), .computed = number()};
  }
  record.is_estimated = random() % 2 == 0;
}

RequestRecord RandomRecord(std::mt19937& random) {
  RequestRecord record;
  const auto number = [&] { return static_cast<int64_t>(random()) << (random() % 20); };
  for (std::string* text : {&record.id, &record.path, &record.upstream, &record.provider,
                            &record.model, &record.answered_by, &record.tenant, &record.outcome,
                            &record.error, &record.upstream_request_id, &record.usage_unknown,
                            &record.service_tier, &record.price_date}) {
    *text = RandomText(random);
  }
  record.time_us = number();
  record.endpoint = static_cast<dialect::form::Endpoint>(random() % 8);
  record.dialect = random() % 2 == 0 ? dialect::form::Api::kOpenAi : dialect::form::Api::kAnthropic;
  record.status = static_cast<int>(random() % 600);
  record.stream = random() % 2 == 0;
  record.num_attempts = static_cast<int>(random() % 5);
  record.timings = {.queue_us = -1, .first_byte_us = number(), .ttft_us = -1, .total_us = number()};
  record.received_bytes = random();
  record.sent_bytes = random();
  record.answer_bytes = random();
  const auto digest = [&] {
    PrefixDigest made;
    for (uint8_t& byte : made.bytes) byte = static_cast<uint8_t>(random());
    return made;
  };
  if (random() % 3 != 0) record.received_sha256 = digest();
  if (random() % 3 == 0) record.sent_sha256 = digest();
  if (random() % 3 == 0) record.sent_sha256 = record.received_sha256;
  for (size_t i = random() % 4; i > 0; --i) {
    record.edits.push_back({.rule = RandomText(random), .count = number()});
  }
  for (size_t i = 0; i < reply::kNumUsageFields; ++i) {
    if (random() % 2 == 0)
      record.reported.Set(static_cast<reply::UsageField>(i), random() % 100'000);
  }
  if (random() % 2 == 0) {
    record.usage = reply::TokenUsage{.uncached_tokens = number(), .output_tokens = number()};
  }
  if (random() % 2 == 0) {
    record.cost = Cost{
        .nanodollars = number(), .uncached_nanodollars = -number(), .direct_nanodollars = number()};
  }
  AddPreparation(random, record);
  return record;
}

TEST(RecordFormatTest, ADecodedRecordIsTheOneThatWasEncoded) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const RequestRecord record = RandomRecord(random);
    const std::string bytes = EncodeRecord(record, Ring());
    EXPECT_EQ(TimeOfRecord(bytes), record.time_us);
    const auto decoded = DecodeRecord(bytes, Ring());
    ASSERT_TRUE(decoded);
    EXPECT_EQ(RecordJson(*decoded), RecordJson(record));
    EXPECT_EQ(EncodeRecord(*decoded, Ring()).size(), bytes.size());
  }
}

TEST(RecordFormatTest, BytesThatAreNoRecordAreSaidToBeNone) {
  std::mt19937 random(8);
  const std::string bytes = EncodeRecord(RandomRecord(random), Ring());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeRecord(bytes.substr(0, size), Ring())) << size;
  }
  EXPECT_FALSE(DecodeRecord(bytes + "x", Ring()));
  EXPECT_FALSE(DecodeRecord(R"({"id":"1","time_us":5})", Ring()));
  EXPECT_EQ(TimeOfRecord(R"({"id":"1","time_us":5})"), 0);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    if (const auto decoded = DecodeRecord(changed, Ring())) RecordJson(*decoded);
  }
}

TEST(RecordFormatTest, NumbersThatNoRequestHasAreDamage) {
  constexpr int64_t kMax = int64_t{1} << 53;
  RequestRecord record;
  record.usage = reply::TokenUsage{.uncached_tokens = kMax, .cache_read_tokens = -kMax};
  const auto decoded = DecodeRecord(EncodeRecord(record, Ring()), Ring());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->usage, record.usage);
  for (const int64_t value : {kMax + 1, -kMax - 1, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()}) {
    record.usage = reply::TokenUsage{.cache_write_tokens = value};
    EXPECT_FALSE(DecodeRecord(EncodeRecord(record, Ring()), Ring())) << value;
  }
}

// The bytes as versions up to 7 wrote them: without a number of segments behind.
std::string AsVersion(char version, std::string bytes) {
  bytes.front() = version;
  bytes.resize(bytes.size() - sizeof(uint64_t));
  return bytes;
}

TEST(RecordFormatTest, ARecordKnowsWhereItsSegmentsAre) {
  RequestRecord record;
  record.id = "id1";
  std::string bytes = EncodeRecord(record, Ring());
  EXPECT_EQ(SegmentsNumberOf(bytes), 0u);
  SetSegmentsNumber(bytes, 0x0102030405060708);
  EXPECT_EQ(SegmentsNumberOf(bytes), 0x0102030405060708u);
  EXPECT_EQ(DecodeRecord(bytes, Ring())->id, "id1");
  EXPECT_EQ(SegmentsNumberOf(AsVersion(7, bytes)), 0u);
  EXPECT_EQ(DecodeRecord(AsVersion(7, bytes), Ring())->id, "id1");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeRecord(std::string_view(bytes).substr(0, size), Ring())) << size;
  }
  EXPECT_EQ(SegmentsNumberOf(""), 0u);
}

TEST(RecordFormatTest, ARecordOfTheVersionBeforeIsStillRead) {
  RequestRecord record;
  record.id = "id1";
  record.time_us = 99;
  record.usage = reply::TokenUsage{.uncached_tokens = 7};
  // Version 2 wrote this form: edits are names, and no field follows.
  std::string bytes = AsVersion(2, EncodeRecord(record, Ring()));
  bytes.back() = 1;
  bytes +=
      "\x0d"
      "cache_control";
  EXPECT_EQ(TimeOfRecord(bytes), 99);
  const auto decoded = DecodeRecord(bytes, Ring());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, "id1");
  EXPECT_EQ(decoded->usage->uncached_tokens, 7);
  EXPECT_EQ(decoded->edits, (std::vector<RecordEdit>{{.rule = "cache_control", .count = 1}}));
  EXPECT_FALSE(decoded->prefix_break);
  bytes.front() = 11;
  EXPECT_FALSE(DecodeRecord(bytes, Ring()));
  EXPECT_EQ(TimeOfRecord(bytes), 0);
  // Version 4 is this form without held lines.
  bytes = AsVersion(4, EncodeRecord(record, Ring()));
  ASSERT_TRUE(DecodeRecord(bytes, Ring()));
  EXPECT_FALSE(DecodeRecord(bytes, Ring())->held_stale);
}

TEST(RecordFormatTest, ANamedPromptCameWithVersionNine) {
  RequestRecord record;
  record.id = "id1";
  const std::string without = EncodeRecord(record, Ring());
  EXPECT_EQ(without.front(), 10);
  std::string older = without;
  older.front() = 8;
  const auto decoded = DecodeRecord(older, Ring());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, "id1");
  EXPECT_EQ(PromptVersionOf(*decoded), "");
  record.prompt_name = "support";
  record.prompt_version = "3";
  EXPECT_EQ(PromptVersionOf(*DecodeRecord(EncodeRecord(record, Ring()), Ring())), "support@3");
}

TEST(RecordFormatTest, TheSharedStoreCameWithVersionTen) {
  RequestRecord record;
  record.tiers = TierTokens{.disk = 3, .shared = 2, .computed = 4};
  std::string bytes = EncodeRecord(record, Ring());
  EXPECT_EQ(DecodeRecord(bytes, Ring())->tiers, record.tiers);
  // Version 9 ended with the computed ones; zigzag of 2 is 4. The number of segments stands behind.
  bytes.front() = 9;
  EXPECT_EQ(bytes[bytes.size() - sizeof(uint64_t) - 1], 4);
  bytes.erase(bytes.size() - sizeof(uint64_t) - 1, 1);
  const auto older = DecodeRecord(bytes, Ring());
  ASSERT_TRUE(older);
  EXPECT_EQ(older->tiers, (TierTokens{.disk = 3, .computed = 4}));
}

TEST(RecordFormatTest, ACostOfVersionSixIsTheDirectOneToo) {
  RequestRecord record;
  record.cost = Cost{.nanodollars = 20, .uncached_nanodollars = 30, .direct_nanodollars = 25};
  std::string older = AsVersion(7, EncodeRecord(record, Ring()));
  // Zigzag of 20, 30 and 25; version 6 ended behind the second.
  const size_t at = older.find("\x28\x3c\x32");
  ASSERT_NE(at, std::string::npos);
  older.erase(at + 2, 1);
  EXPECT_FALSE(DecodeRecord(older, Ring()));
  older.front() = 6;
  const auto decoded = DecodeRecord(older, Ring());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->cost->uncached_nanodollars, 30);
  EXPECT_EQ(decoded->cost->direct_nanodollars, 20);
}

// The bytes that version 5 wrote, put together from store/FORMAT.md.
TEST(RecordFormatTest, BytesOfVersionFiveAreRead) {
  const auto text = [](std::string_view value) {
    return std::string(1, static_cast<char>(value.size())).append(value);
  };
  std::string bytes("\x05", 1);
  const int64_t time_us = 1'790'000'000'000'000;
  bytes.append(reinterpret_cast<const char*>(&time_us), sizeof(time_us));
  bytes += "\x82\x14";              // flags: usage, attribution, held lines
  bytes += std::string("\4\1", 2);  // messages, in Anthropic's dialect
  for (const char* value : {"id5", "/v1/messages", "main", "anthropic", "claude", "", "tenant",
                            "complete", "", "req_1", "", "standard", ""}) {
    bytes += text(value);
  }
  bytes += "\x90\x03\x02";                // 200, one attempt
  bytes += std::string("\1\2\3\x0a", 4);  // queue unknown, 1, unknown, 5
  bytes += std::string("\7\7\1", 3);
  bytes += std::string("\0", 1);  // nothing reported
  bytes += std::string("\x06\x08\0\0\x02\0", 6);
  bytes += std::string("\0", 1);  // no edits
  bytes += "\1" + text("user") + std::string("\x08\0\x06\x04", 4);
  bytes += std::string("\x02\x14", 2);  // one line, ten seconds
  const auto record = DecodeRecord(bytes, Ring());
  ASSERT_TRUE(record);
  EXPECT_EQ(TimeOfRecord(bytes), time_us);
  EXPECT_EQ(record->id, "id5");
  EXPECT_EQ(record->tenant, "tenant");
  EXPECT_EQ(record->status, 200);
  EXPECT_EQ(record->timings.total_us, 5);
  EXPECT_EQ(record->timings.tpot_us, -1);
  EXPECT_EQ(record->usage->uncached_tokens, 3);
  EXPECT_EQ(record->usage->cache_read_tokens, 4);
  EXPECT_EQ(record->attribution[0].uncached, 3);
  EXPECT_EQ(record->held_stale->seconds, 10);
  EXPECT_FALSE(record->tiers);
  EXPECT_EQ(record->session, "");
}

TEST(RecordFormatTest, WordsOfAPromptAreSealedAndOpenForTheirOwnRecord) {
  RequestRecord record;
  record.id = "id1";
  record.time_us = 99;
  record.prefix_break = RecordBreak{
      .cause = "system_changed", .path = "system", .before = "Monday", .after = "Tuesday"};
  std::string bytes = EncodeRecord(record, Ring());
  EXPECT_EQ(bytes.find("Monday"), std::string::npos);
  EXPECT_EQ(bytes.find("Tuesday"), std::string::npos);
  EXPECT_FALSE(HasClearWords(bytes));
  EXPECT_EQ(DecodeRecord(bytes, Ring())->prefix_break->after, "Tuesday");
  const auto other = Keyring::Generate();
  const auto without = DecodeRecord(bytes, *other);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->prefix_break->cause, "system_changed");
  EXPECT_EQ(without->prefix_break->before + without->prefix_break->after, "");
  bytes.replace(bytes.find("id1"), 3, "id2");
  EXPECT_FALSE(DecodeRecord(bytes, Ring()));
}

TEST(RecordFormatTest, ItsSizeIsBoundedWhateverACallerSends) {
  RequestRecord record;
  record.model = std::string(1 << 20, 'x');
  record.error = std::string(1 << 20, 'x');
  record.edits.assign(10'000, {.rule = std::string(5'000, 'x'), .count = 1});
  record.attribution.assign(10'000, {.source = std::string(5'000, 'x')});
  record.prefix_break = RecordBreak{.path = std::string(1 << 20, 'x'),
                                    .before = std::string(1 << 20, 'x'),
                                    .after = std::string(1 << 20, 'x')};
  const std::string bytes = EncodeRecord(record, Ring());
  EXPECT_LT(bytes.size(), 10'000u);
  const auto decoded = DecodeRecord(bytes, Ring());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->model, std::string(512, 'x'));
}

TEST(RecordFormatTest, AnOrdinaryRecordIsSmall) {
  RequestRecord record;
  record.id = "0123456789abcdef01234567";
  record.path = "/v1/chat/completions";
  record.upstream = record.provider = "openai";
  record.model = record.answered_by = "gpt-5";
  record.received_sha256 = record.sent_sha256 = PrefixDigest{};
  record.usage = reply::TokenUsage{.uncached_tokens = 1000, .output_tokens = 100};
  EXPECT_LT(EncodeRecord(record, Ring()).size(), 200u);
}

}  // namespace
}  // namespace kvgate::ledger
