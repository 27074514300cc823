// The Advisor finds in the records of some time what makes prompts dearer than they need be, and
// what would end it. It knows records and prices, no sockets and no store.
//
// Each piece of advice says how many tokens and dollars a day the pattern costs: what the same
// requests would have cost less without it. What cannot be priced (the local engine, an unknown
// model) counts in tokens alone. Not thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/prices.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::advice {

// The requests that a piece of advice is about.
struct Where {
  std::string model = {};
  std::string upstream = {};
  std::string key = {};   // empty: there are no keys
  std::string path = {};  // of the part of the prompt; empty: more than one
  friend auto operator<=>(const Where&, const Where&) = default;
};

struct Setting {
  std::string key;
  std::string value;
};

struct Advice {
  std::string id;     // "tool_order"
  std::string title;  // a few words
  std::string what;   // one sentence with the evidence
  Where where;
  int64_t num_requests = 0;
  std::vector<std::string> evidence;  // ids of requests, at most kEvidenceMax
  int64_t tokens_per_day = 0;
  int64_t nanodollars_per_day = 0;
  std::string fix;  // one sentence
  std::optional<Setting> setting;
};
inline constexpr size_t kEvidenceMax = 5;

class Advisor {
 public:
  struct Options {
    const ledger::Prices& prices = ledger::Prices::Builtin();
    // Finds of fewer tokens a day are not worth a word, unless they cost more than this.
    int64_t tokens_min = 10'000;
    int64_t nanodollars_min = 10'000'000;
    int64_t requests_min = 5;
    int64_t transcript_tokens = 32'000;  // a transcript beyond it should be compacted
    int64_t output_tokens = 4'000;       // a tool's result beyond it is oversized
  };
  explicit Advisor(const Options& options) : options_(options) {}

  // Records come in the order of their time, with their segments as far as they are known.
  void Add(const ledger::RequestRecord& record);

  // Returns what was found between these times, the dearest first.
  std::vector<Advice> Finish(int64_t from_us, int64_t to_us) const;

 private:
  // What one kind of pattern has cost so far at one place.
  struct Find {
    int64_t num_requests = 0;
    int64_t tokens = 0;
    int64_t nanodollars = 0;
    std::vector<std::string> evidence = {};
    std::string detail = {};  // a word for the sentence: the kind of a value, the name of a tool
    std::string mode = {};    // that applied
  };
  struct Tool {
    int64_t num_requests = 0;
    int64_t tokens = 0;
    int64_t nanodollars = 0;
    bool is_called = false;
  };
  // A conversation, for what needs more than one request.
  struct Conversation {
    bool calls_tools = false;
    int64_t num_requests = 0;
    int64_t tool_tokens = 0;
    int64_t tool_nanodollars = 0;
    int64_t input_tokens = 0;
    // What was lost because a lifetime was over, and what the longer one would have cost more.
    Find lapsed = {};
    int64_t longer_nanodollars = 0;
    std::vector<std::string> evidence;
  };
  // A request whose prefix others may have needed at the same time, or that came again.
  struct Earlier {
    int64_t time_us = 0;
    int64_t answered_us = 0;
  };
  struct Traffic {
    int64_t num_requests = 0;
    int64_t input_tokens = 0;
    std::map<std::string, Tool> tools;
    std::map<std::string, Conversation> conversations;
  };
  using FindKey = std::pair<std::string, Where>;  // by id

  class Reader;  // of one record

  void Count(std::string_view id, const Reader& reader, Find add);
  void AddBreak(const Reader& reader);
  static void AddLifetime(const Reader& reader, Conversation& conversation);
  void AddParts(const Reader& reader, Traffic& traffic, Conversation& conversation);
  void AddBeside(const Reader& reader);
  void AddRepeat(const Reader& reader);
  void AddLifetimes(std::map<FindKey, Find>& finds) const;
  void AddUnusedTools(std::map<FindKey, Find>& finds) const;
  void AddOneSize(std::map<FindKey, Find>& finds) const;
  bool IsWorthAWord(const Find& find, double days) const;

  const Options options_;
  std::map<FindKey, Find> finds_;
  std::map<Where, Traffic> traffic_;
  std::map<std::pair<Where, std::string>, Earlier> cold_;    // by prompt
  std::map<std::pair<Where, std::string>, Earlier> bodies_;  // by digest
};

// Writes {"from_us", "to_us", "data": [ADVICE …]}.
void WriteAdvice(std::span<const Advice> advice, int64_t from_us, int64_t to_us,
                 dialect::form::JsonWriter& json);

}  // namespace kvgate::advice
