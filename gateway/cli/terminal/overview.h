// Overview is what `kvgate top` shows: it takes what a server tells of itself and draws one page.
// It knows no terminal and no server. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/cli/terminal/record_text.h"
#include "gateway/cli/terminal/screen.h"

namespace kvgate::cli::terminal {

class Overview {
 public:
  explicit Overview(std::string address) : address_(std::move(address)) {}

  // What /kvgate/v1/stats answered.
  void TakeStats(nlohmann::json stats) { stats_ = std::move(stats); }
  // An event of /kvgate/v1/events, by its name.
  void TakeEvent(std::string_view name, nlohmann::json data);

  // The page's lines. `now_us` says how long caches stay warm.
  std::vector<std::string> Lines(ScreenSize size, bool is_styled, int64_t now_us) const;

 private:
  static constexpr size_t kRecordsMax = 200;
  static constexpr size_t kRatesMax = 60;  // one a second

  void AddHead(const TextArgs& args, int64_t now_us, std::vector<std::string>& lines) const;
  void AddTiers(std::vector<std::string>& lines) const;
  void AddClocks(const TextArgs& args, int64_t now_us, size_t count_max,
                 std::vector<std::string>& lines) const;
  void AddRecords(const TextArgs& args, size_t count_max, std::vector<std::string>& lines) const;

  const std::string address_;
  nlohmann::json stats_ = nlohmann::json::object();
  nlohmann::json now_ = nlohmann::json::object();  // the newest event "stats"
  std::deque<nlohmann::json> records_;             // the newest first
  std::vector<double> rates_;                      // hit rates of the last minute, each second
  int64_t num_dropped_ = 0;
};

}  // namespace kvgate::cli::terminal
