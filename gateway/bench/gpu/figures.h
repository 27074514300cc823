// Figures: the measurements, each with its limit and its bound, as a table that is printed row by
// row (so a run that is cut short has still printed what it measured) or as JSON at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::bench::gpu {

// Bounds for a figure: on the ratio measured / limit, or on the measured value itself.
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

  // Returns 0 if there is no limit.
  double ratio() const { return limit > 0 ? measured / limit : 0; }
  // Returns false if there is no bound, true if the figure is not a number.
  bool is_missed() const;
};

class Figures {
 public:
  // Rows are printed to `out` as they are added; null: they are not printed.
  explicit Figures(std::FILE* out) : out_(out) {}

  // Adds a line about the run: the device, or a part that was cut short or left out.
  void AddFact(std::string name, std::string value);
  void Add(Figure figure);

  const std::vector<Figure>& figures() const { return figures_; }
  int num_missed() const;
  // {"facts": {NAME: VALUE}, "figures": [{part, name, measured, unit, limit, limit_name, ratio,
  // bound, missed, note}]}; limit, ratio and bound are null if there is none.
  std::string Json() const;

 private:
  std::FILE* out_;
  std::string part_;  // of the last row
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<Figure> figures_;
};

// ">= 0.80 of limit", "<= 30 ms"; empty if there is no bound.
std::string BoundText(const Bound& bound, std::string_view unit);

}  // namespace kvgate::bench::gpu
