#include "gateway/bench/gpu/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace kvgate::bench::gpu {
namespace {

// Formats with about four significant digits and no exponent.
std::string NumberText(double value) {
  if (!std::isfinite(value)) return "none";
  const double size = std::abs(value);
  const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string MissMessage(const Figure& figure) {
  if (figure.bound.kind == BoundKind::kNone) return "";
  return figure.is_missed() ? "MISSED" : "ok";
}

}  // namespace

bool Figure::is_missed() const {
  switch (bound.kind) {
    case BoundKind::kNone:
      return false;
    case BoundKind::kRatioMin:
      return !(ratio() >= bound.value);
    case BoundKind::kRatioMax:
      return !(limit > 0 && ratio() <= bound.value);
    case BoundKind::kMin:
      return !(measured >= bound.value);
    case BoundKind::kMax:
      return !(measured <= bound.value);
  }
  return true;
}

std::string BoundText(const Bound& bound, std::string_view unit) {
  switch (bound.kind) {
    case BoundKind::kNone:
      return "";
    case BoundKind::kRatioMin:
      return fmt::format(">= {:.2f} of it", bound.value);
    case BoundKind::kRatioMax:
      return fmt::format("<= {:.2f} of it", bound.value);
    case BoundKind::kMin:
      return fmt::format(">= {} {}", bound.value, unit);
    case BoundKind::kMax:
      return fmt::format("<= {} {}", bound.value, unit);
  }
  return "";
}

void Figures::AddFact(std::string name, std::string value) {
  if (out_ != nullptr) {
    fmt::print(out_, "{}: {}\n", name, value);
    std::fflush(out_);
  }
  facts_.emplace_back(std::move(name), std::move(value));
}

void Figures::Add(Figure figure) {
  if (out_ != nullptr) {
    if (figure.part != part_) {
      fmt::print(out_, "\n{:<44}{:>18}{:>18}{:>8}  {:<17}{:<8}{}\n", figure.part, "measured",
                 "limit", "ratio", "bound", "", "limit is");
    }
    const bool has_limit = figure.limit > 0;
    std::string row =
        fmt::format("{:<44}{:>18}{:>18}{:>8}  {:<17}{:<8}{}", "  " + figure.name,
                    NumberText(figure.measured) + " " + figure.unit,
                    has_limit ? NumberText(figure.limit) + " " + figure.unit : "",
                    has_limit ? fmt::format("{:.2f}", figure.ratio()) : "",
                    BoundText(figure.bound, figure.unit), MissMessage(figure), figure.limit_name);
    if (!figure.note.empty()) row += fmt::format(" ({})", figure.note);
    fmt::print(out_, "{}\n", row.substr(0, row.find_last_not_of(' ') + 1));
    std::fflush(out_);
  }
  part_ = figure.part;
  figures_.push_back(std::move(figure));
}

int Figures::num_missed() const {
  return static_cast<int>(std::ranges::count_if(figures_, &Figure::is_missed));
}

std::string Figures::Json() const {
  using Json = nlohmann::ordered_json;
  Json json{{"facts", Json::object()}, {"figures", Json::array()}};
  for (const auto& [name, value] : facts_) json["facts"][name] = value;
  for (const Figure& figure : figures_) {
    Json row{{"part", figure.part}, {"name", figure.name}, {"measured", figure.measured},
             {"unit", figure.unit}, {"limit", nullptr},    {"limit_name", figure.limit_name},
             {"ratio", nullptr},    {"bound", nullptr},    {"missed", figure.is_missed()},
             {"note", figure.note}};
    if (figure.limit > 0) {
      row["limit"] = figure.limit;
      row["ratio"] = figure.ratio();
    }
    if (figure.bound.kind != BoundKind::kNone) {
      row["bound"] = BoundText(figure.bound, figure.unit);
    }
    json["figures"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvgate::bench::gpu
