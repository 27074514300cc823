// Figures: what was measured, each beside its limit and what is asked of it, as a table that grows
// line by line (a run that is cut short has still said what it knew) or as JSON at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::cli::gpu_bench {

// What is asked of a figure, of the ratio measured / limit or of what was measured itself.
enum class BoundKind : uint8_t { kNone, kRatioMin, kRatioMax, kMin, kMax };

struct Bound {
  BoundKind kind = BoundKind::kNone;
  double value = 0;
};

struct Figure {
  std::string part = {};  // "decode bf16"
  std::string name = {};  // "1 sequence at 20480"
  double measured = 0;
  std::string unit = {};        // "tok/s"
  double limit = 0;             // in the same unit; 0: there is none
  std::string limit_name = {};  // "weights and KV / copy bandwidth"
  Bound bound = {};
  std::string note = {};

  // 0 without a limit.
  double ratio() const { return limit > 0 ? measured / limit : 0; }
  // False without a bound. What is not a number is missed.
  bool is_missed() const;
};

class Figures {
 public:
  // Rows go to `out` as they are added; null: nowhere.
  explicit Figures(std::FILE* out) : out_(out) {}

  // A line about the run: the device, a part that was cut short or left out.
  void AddFact(std::string name, std::string value);
  void Add(Figure figure);

  const std::vector<Figure>& figures() const { return figures_; }
  int num_missed() const;
  // {"facts": {NAME: VALUE}, "figures": [{part, name, measured, unit, limit, limit_name, ratio,
  // bound, missed, note}]}; limit, ratio and bound are null where there is none.
  std::string Json() const;

 private:
  std::FILE* out_;
  std::string part_;  // of the last row
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<Figure> figures_;
};

// ">= 0.80 of limit", "<= 30 ms"; empty without one.
std::string BoundText(const Bound& bound, std::string_view unit);

}  // namespace kvgate::cli::gpu_bench
