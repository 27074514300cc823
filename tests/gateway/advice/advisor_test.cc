// The advice is held against a replay: a day of requests to a provider's cache is simulated with a
// pattern and without it, and the difference of what they cost is what the advice should name.
#include "gateway/advice/advisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kvgate::advice {
namespace {

using ledger::RequestRecord;
using ledger::reply::TokenUsage;

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

struct Part {
  std::string source;
  std::string text;  // what it says; a prefix is cached by it
  int64_t tokens = 0;
  std::string name = {};
};

struct Request {
  int64_t time_us = 0;
  std::string conversation;
  std::vector<Part> parts;
  std::string prompt = "p";
  int64_t ttl_us = 5 * kMinute;
  int64_t answer_us = 2 * kSecond;
};

// A provider that writes the whole prompt at its last breakpoint, and reads the longest prefix.
class Provider {
 public:
  RequestRecord Answer(const Request& request, int number) {
    RequestRecord record;
    record.id = "r" + std::to_string(number);
    record.time_us = request.time_us;
    record.provider = "anthropic";
    record.model = "claude-3-7-sonnet-20250219";
    record.upstream = "main";
    record.mode = "pin";
    record.status = 200;
    record.conversation = request.conversation;
    record.prompt = request.prompt;
    record.timings.ttft_us = request.answer_us;
    PrefixDigest digest;
    const auto hash = std::hash<std::string>()(Prefix(request, request.parts.size()));
    for (size_t i = 0; i < 8; ++i) digest.bytes[i] = static_cast<uint8_t>(hash >> (8 * i));
    record.received_sha256 = digest;
    const int64_t total = TokensOf(request, request.parts.size());
    const bool is_cached = total >= kMinimum;
    size_t num_read = 0;
    for (size_t n = request.parts.size(); is_cached && n > 0 && num_read == 0; --n) {
      if (IsWarm(request, n)) num_read = n;
    }
    const int64_t read = TokensOf(request, num_read);
    record.usage = TokenUsage{.uncached_tokens = is_cached ? 0 : total, .cache_read_tokens = read};
    (request.ttl_us > 5 * kMinute ? record.usage->cache_write_1h_tokens
                                  : record.usage->cache_write_tokens) =
        is_cached ? total - read : 0;
    Attribute(request, num_read, is_cached, record);
    FindBreak(request, read, is_cached, record);
    for (size_t n = 1; is_cached && n <= request.parts.size(); ++n) {
      auto& warm = warm_[Prefix(request, n)];
      const int64_t from = request.time_us + request.answer_us;
      if (warm.until < request.time_us) warm.from = from;
      warm.until = from + request.ttl_us;
    }
    before_.insert_or_assign(request.conversation, request);
    const auto* row = ledger::Prices::Builtin().Find(record.provider, record.model);
    record.cost = CostOf(*row, *record.usage, "");
    return record;
  }

 private:
  static constexpr int64_t kMinimum = 1'024;
  struct Warm {
    int64_t from = 0;
    int64_t until = -1;
  };

  static std::string Prefix(const Request& request, size_t n) {
    std::string prefix;
    for (size_t i = 0; i < n; ++i) prefix += request.parts[i].text + "\n";
    return prefix;
  }
  static int64_t TokensOf(const Request& request, size_t n) {
    int64_t tokens = 0;
    for (size_t i = 0; i < n; ++i) tokens += request.parts[i].tokens;
    return tokens;
  }
  bool IsWarm(const Request& request, size_t n) const {
    const auto found = warm_.find(Prefix(request, n));
    return found != warm_.end() && request.time_us >= found->second.from &&
           request.time_us < found->second.until;
  }

  static void Attribute(const Request& request, size_t num_read, bool is_cached,
                        RequestRecord& record) {
    std::map<std::string, ledger::SourceTokens> sums;
    for (size_t i = 0; i < request.parts.size(); ++i) {
      const Part& part = request.parts[i];
      ledger::segment::RecordSegment segment{.source = part.source, .name = part.name};
      (i < num_read ? segment.cached
       : is_cached  ? segment.written
                    : segment.uncached) = part.tokens;
      ledger::SourceTokens& sum = sums[part.source];
      sum.source = part.source;
      sum.cached += segment.cached;
      sum.written += segment.written;
      sum.uncached += segment.uncached;
      record.segments.push_back(segment);
    }
    for (const auto& [source, sum] : sums) record.attribution.push_back(sum);
  }

  // What was sent before in this conversation, and again, should have been read.
  void FindBreak(const Request& request, int64_t read, bool is_cached, RequestRecord& record) {
    const auto found = before_.find(request.conversation);
    ledger::RecordBreak& it = record.prefix_break.emplace();
    it.cause = is_cached ? "none" : "below_minimum";
    if (found == before_.end() || !is_cached) return;
    std::set<std::string> sent;
    for (const Part& part : found->second.parts) sent.insert(part.text);
    int64_t again = 0;
    size_t common = 0;
    for (size_t i = 0; i < request.parts.size(); ++i) {
      if (sent.contains(request.parts[i].text)) again += request.parts[i].tokens;
      const bool is_same = common == i && i < found->second.parts.size() &&
                           found->second.parts[i].text == request.parts[i].text;
      if (is_same) ++common;
    }
    it.lost_tokens = std::max<int64_t>(0, again - read);
    it.lost_nanodollars = it.lost_tokens * 3'450;
    if (it.lost_tokens == 0) return;
    const std::string& source = request.parts[common].source;
    it.cause = TokensOf(request, common) > read ? "ttl_lapsed"
               : source == "tools"              ? "tools_reordered"
               : source == "system"             ? "system_changed"
                                                : "history_edited";
    if (it.cause == "system_changed") it.path = "system[0]";
  }

  std::map<std::string, Warm> warm_;
  std::map<std::string, Request> before_;
};

Part Tool(const std::string& name, int64_t tokens = 400) {
  return {.source = "tools", .text = "tool " + name, .tokens = tokens, .name = name};
}
Part Text(const std::string& source, const std::string& text, int64_t tokens) {
  return {.source = source, .text = text, .tokens = tokens};
}

// A day of thirty conversations of eight turns, in which each tool is called.
struct DayOptions {
  int turns = 8;
  int64_t gap_us = kMinute;
  int64_t ttl_us = 5 * kMinute;
  int64_t turn_tokens = 300;
  int64_t result_tokens = 200;
  // Changes one request: its conversation, its turn.
  std::function<void(Request&, int, int)> change = {};
};

std::vector<Request> DayOf(const DayOptions& options) {
  std::vector<Request> day;
  for (int c = 0; c < 30; ++c) {
    const std::string name = "c" + std::to_string(c);
    const int64_t begin = c * (kDay / 31);
    for (int turn = 0; turn < options.turns; ++turn) {
      Request request{.time_us = begin + turn * options.gap_us, .conversation = name, .parts = {}};
      request.ttl_us = options.ttl_us;
      request.parts = {Tool("read"), Tool("write"), Text("system", "you are", 900)};
      for (int i = 0; i < turn; ++i) {
        const std::string at = name + "/" + std::to_string(i);
        request.parts.push_back(Text("history", "said " + at, options.turn_tokens));
        request.parts.push_back(Text("tool_results", "got " + at, options.result_tokens));
        request.parts.back().name = i % 2 == 0 ? "read" : "write";
      }
      request.parts.push_back(Text("user", "ask " + name + "/" + std::to_string(turn), 60));
      if (options.change) options.change(request, c, turn);
      day.push_back(std::move(request));
    }
  }
  return day;
}

struct Outcome {
  std::vector<Advice> advice;
  int64_t nanodollars = 0;
  const Advice* Find(const std::string& id) const {
    for (const Advice& item : advice) {
      if (item.id == id) return &item;
    }
    return nullptr;
  }
};

Outcome Replay(std::vector<Request> day) {
  std::stable_sort(day.begin(), day.end(),
                   [](const Request& a, const Request& b) { return a.time_us < b.time_us; });
  Provider provider;
  Advisor advisor(Advisor::Options{});
  Outcome outcome;
  int number = 0;
  for (const Request& request : day) {
    const RequestRecord record = provider.Answer(request, ++number);
    outcome.nanodollars += record.cost->nanodollars;
    advisor.Add(record);
  }
  outcome.advice = advisor.Finish(0, kDay);
  return outcome;
}

// The advice of that name stands in the one day, nowhere in the other, and names the difference.
void ExpectFound(const std::string& id, const std::vector<Request>& planted,
                 const std::vector<Request>& without) {
  const Outcome with = Replay(planted);
  const Outcome clean = Replay(without);
  const Advice* const found = with.Find(id);
  ASSERT_NE(found, nullptr) << id;
  EXPECT_EQ(clean.Find(id), nullptr) << id;
  const auto saved = static_cast<double>(with.nanodollars - clean.nanodollars);
  EXPECT_GT(saved, 0);
  EXPECT_NEAR(static_cast<double>(found->nanodollars_per_day), saved, saved / 10) << id;
  EXPECT_FALSE(found->evidence.empty());
  EXPECT_LE(found->evidence.size(), kEvidenceMax);
  EXPECT_FALSE(found->fix.empty());
  EXPECT_EQ(found->where.upstream, "main");
}

TEST(AdvisorTest, ACleanDayAdvisesNothing) {
  const Outcome clean = Replay(DayOf({}));
  for (const Advice& item : clean.advice) ADD_FAILURE() << item.id << ": " << item.what;
  EXPECT_TRUE(Advisor(Advisor::Options{}).Finish(0, kDay).empty());
}

TEST(AdvisorTest, AVolatileSystemPromptIsFound) {
  const auto put = [](std::string line) {
    return [line](Request& request, int c, int turn) {
      const std::string text =
          line == "volatile" ? "time " + std::to_string(c * 100 + turn) : "time";
      request.parts.insert(request.parts.begin() + 2, Text("system", text, 15));
    };
  };
  const auto planted = DayOf({.change = put("volatile")});
  ExpectFound("volatile_system", planted, DayOf({.change = put("stable")}));
  const Outcome outcome = Replay(planted);
  const Advice* const found = outcome.Find("volatile_system");
  EXPECT_EQ(found->where.path, "system[0]");
  ASSERT_TRUE(found->setting);
  EXPECT_EQ(found->setting->value, "stabilize");
}

TEST(AdvisorTest, AnotherOrderOfToolsIsFound) {
  ExpectFound("tool_order",
              DayOf({.change =
                         [](Request& request, int, int turn) {
                           if (turn % 2 == 1) {
                             std::swap(request.parts[0], request.parts[1]);
                           }
                         }}),
              DayOf({}));
}

TEST(AdvisorTest, ToolsThatNobodyCallsAreFound) {
  const auto planted = DayOf({.change = [](Request& request, int, int) {
    for (const char* name : {"delete", "move", "copy"}) {
      request.parts.insert(request.parts.begin() + 2, Tool(name, 700));
    }
  }});
  ExpectFound("unused_tools", planted, DayOf({}));
  const Outcome outcome = Replay(planted);
  EXPECT_NE(outcome.Find("unused_tools")->what.find("delete"), std::string::npos);
  EXPECT_EQ(outcome.Find("unused_tools")->what.find("read"), std::string::npos);
}

TEST(AdvisorTest, ManyExamplesAreFound) {
  ExpectFound("few_shot_bulk",
              DayOf({.change =
                         [](Request& request, int, int) {
                           request.parts.insert(request.parts.begin() + 3,
                                                Text("examples", "shots", 4'000));
                         }}),
              DayOf({}));
}

TEST(AdvisorTest, ATranscriptWithoutBoundIsFound) {
  DayOptions options{.turns = 40, .turn_tokens = 1'200};
  const auto planted = DayOf(options);
  // An ideal window, whose cache outlives what it drops: the oldest turns cost nothing.
  options.change = [](Request& request, int, int) {
    int64_t tokens = 0;
    for (const Part& part : request.parts) tokens += part.tokens;
    for (size_t i = 3; i < request.parts.size() && tokens > 32'000; ++i) {
      const int64_t dropped = std::min(tokens - 32'000, request.parts[i].tokens);
      request.parts[i].tokens -= dropped;
      tokens -= dropped;
    }
  };
  ExpectFound("unbounded_transcript", planted, DayOf(options));
}

TEST(AdvisorTest, OversizedResultsAreFound) {
  DayOptions options{.turns = 5, .result_tokens = 5'500};
  const auto planted = DayOf(options);
  options.result_tokens = 4'000;
  ExpectFound("oversized_outputs", planted, DayOf(options));
}

TEST(AdvisorTest, APrefixJustUnderTheMinimumIsFound) {
  const auto of = [](int64_t padding) {
    std::vector<Request> day;
    for (int i = 0; i < 400; ++i) {
      Request request{.time_us = i * kMinute, .conversation = "c" + std::to_string(i), .parts = {}};
      request.parts = {Text("system", "you are", 900 + padding),
                       Text("user", "ask " + std::to_string(i), 40)};
      day.push_back(std::move(request));
    }
    return day;
  };
  ExpectFound("prefix_under_minimum", of(0), of(124));
}

TEST(AdvisorTest, EqualPrefixesThatStartSideBySideAreFound) {
  const auto of = [](int64_t between) {
    std::vector<Request> day;
    for (int burst = 0; burst < 20; ++burst) {
      for (int i = 0; i < 10; ++i) {
        const std::string name = std::to_string(burst) + "/" + std::to_string(i);
        Request request{.time_us = burst * kHour + i * between, .conversation = name, .parts = {}};
        request.parts = {Text("system", "you are", 3'000), Text("user", name, 50)};
        day.push_back(std::move(request));
      }
    }
    return day;
  };
  ExpectFound("parallel_cold_starts", of(1'000), of(5 * kSecond));
}

TEST(AdvisorTest, ALifetimeThatIsTooShortIsFound) {
  DayOptions options{.gap_us = 20 * kMinute, .change = [](Request& request, int c, int) {
                       // Conversations have nothing in common.
                       for (size_t i = 0; i < 3; ++i) request.parts[i].text += std::to_string(c);
                     }};
  const auto planted = DayOf(options);
  options.ttl_us = kHour;
  ExpectFound("wrong_ttl", planted, DayOf(options));
}

TEST(AdvisorTest, RetriesThatPayAgainAreFound) {
  const auto of = [](int64_t after) {
    std::vector<Request> day = DayOf({.turns = 1});
    for (int i = 0; i < 30; ++i) {
      Request again = day[static_cast<size_t>(i)];
      again.time_us += after;
      day.push_back(std::move(again));
    }
    // A body that is long beside its prefix.
    for (size_t i = 0; i < day.size(); ++i) {
      const std::string text = "long " + std::to_string(i % 30);
      day[i].parts.push_back(Text("user", text, 6'000));
      day[i].prompt = "p" + std::to_string(i % 30);
      day[i].answer_us = 3 * kSecond;
    }
    return day;
  };
  const auto planted = of(kSecond);
  const Outcome with = Replay(planted);
  const Outcome clean = Replay(of(10 * kSecond));
  ASSERT_NE(with.Find("retries_that_rewrite"), nullptr);
  EXPECT_EQ(clean.Find("retries_that_rewrite"), nullptr);
  const auto saved = static_cast<double>(with.nanodollars - clean.nanodollars);
  EXPECT_NEAR(static_cast<double>(with.Find("retries_that_rewrite")->nanodollars_per_day), saved,
              saved / 10);
}

TEST(AdvisorTest, OneContextForAllIsFound) {
  const auto of = [](bool is_lean) {
    return DayOf({.change = [is_lean](Request& request, int c, int) {
      if (c % 2 == 0) {
        request.parts[0].tokens = request.parts[1].tokens = 4'000;
        return;
      }
      // These conversations call no tools.
      std::erase_if(request.parts, [](const Part& part) { return part.source == "tool_results"; });
      if (is_lean) {
        request.parts.erase(request.parts.begin(), request.parts.begin() + 2);
        request.prompt = "lean";
      } else {
        request.parts[0].tokens = request.parts[1].tokens = 4'000;
      }
    }});
  };
  ExpectFound("one_size_context", of(false), of(true));
}

TEST(AdvisorTest, LittleTrafficIsNotWorthAWord) {
  std::vector<Request> day = DayOf({.change = [](Request& request, int, int turn) {
    if (turn % 2 == 1) std::swap(request.parts[0], request.parts[1]);
  }});
  day.resize(4);
  EXPECT_TRUE(Replay(day).advice.empty());
}

TEST(AdvisorTest, TheDearestIsFirstInJsonAndHasWhatTheApiPromises) {
  const auto planted = DayOf({.change = [](Request& request, int, int turn) {
    request.parts.insert(request.parts.begin() + 3, Text("examples", "shots", 4'000));
    if (turn % 2 == 1) std::swap(request.parts[0], request.parts[1]);
  }});
  const std::vector<Advice> advice = Replay(planted).advice;
  ASSERT_GE(advice.size(), 2U);
  std::string text;
  dialect::form::JsonWriter writer(text);
  WriteAdvice(advice, 1, 2, writer);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["from_us"], 1);
  EXPECT_GE(json["data"][0]["nanodollars_per_day"], json["data"][1]["nanodollars_per_day"]);
  for (const auto& item : json["data"]) {
    for (const char* name : {"id", "title", "what", "where", "requests", "evidence",
                             "tokens_per_day", "nanodollars_per_day", "fix", "setting"}) {
      EXPECT_TRUE(item.contains(name)) << name;
    }
  }
}

}  // namespace
}  // namespace kvgate::advice
