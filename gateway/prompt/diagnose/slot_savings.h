// SlotSavings counts what the mode stabilize would have saved in requests of the modes pin and
// observe: tokens and money that were lost because lines of prompts changed, by slot. It answers
// for `kvgate stats`, and says so in one line of the log an hour, if there is anything to say.
//
// It keeps numbers, hashes and places of lines, and no text of a prompt: a line is read, without
// its values, from the conversation's own memory when it is shown, and is unknown once that has
// gone. Bounded: of too many slots the longest silent one leaves, and stays in the sums only.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gateway/prompt/diagnose/slot_loss.h"
#include "gateway/prompt/history/branch.h"

namespace kvgate::prompt::diagnose {

class SlotSavings {
 public:
  struct Options {
    size_t slots_max = 256;
    std::chrono::seconds interval{3'600};                   // of the line in the log
    std::function<void(const std::string& line)> log = {};  // empty: the log
  };
  SlotSavings() : SlotSavings(Options{}) {}
  explicit SlotSavings(Options options);
  // Logs what the last hour has not said yet.
  ~SlotSavings();
  SlotSavings(const SlotSavings&) = delete;
  SlotSavings& operator=(const SlotSavings&) = delete;

  struct Request {
    std::string_view tenant;
    std::string_view model;
    const std::vector<SlotLoss>& losses;
    std::shared_ptr<const history::Branch> branch;  // that holds the lines
  };
  // Counts one request. A user's line counts from its second change on, because its author may have
  // edited it once.
  void Add(const Request& request);

  struct Sum {
    int64_t requests = 0;
    int64_t tokens = 0;
    int64_t nanodollars = 0;
  };
  struct Saving {
    std::string tenant;
    std::string model;
    templates::Place place{};
    std::string line;  // without its values; empty: it is not known any more
    std::string path;  // of its text; empty likewise
    Sum sum;
  };
  struct Savings {
    int64_t since_us = 0;  // since 1970
    Sum sum;
    std::vector<Saving> slots;  // those that cost most first
  };
  // Lists all, or what is one tenant's.
  Savings List(const std::optional<std::string>& tenant = std::nullopt) const;

 private:
  struct Slot {
    std::string tenant;
    std::string model;
    templates::Place place{};
    uint64_t mask = 0;
    Sum all;
    Sum unsaid;                                   // in the log
    std::weak_ptr<const history::Branch> branch;  // that had the line last
    size_t segment = 0;
    uint32_t line = 0;
  };
  using Slots = std::list<Slot>;  // last used first

  Slot& FindOrAddLocked(const Request& request, const SlotLoss& loss);
  // Returns the line for the log, and lets the hour begin anew; empty if there is nothing to say.
  std::string TakeLineLocked();
  void Log(const std::string& line) const;

  const Options options_;
  const int64_t since_us_ = WallClock::NowUs();
  mutable std::mutex mutex_;
  Slots slots_;
  Sum all_;
  Sum unsaid_;  // in the log
  SteadyClock::time_point said_at_ = SteadyClock::now();
};

}  // namespace kvgate::prompt::diagnose
