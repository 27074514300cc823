// The budgets of tenants as a table: what is used of each, and when it renews.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::cli::terminal {

// `answer` is that of /kvgate/v1/budgets. Those that are closest to their limit stand first; a mark
// says which thresholds are passed. Lines of at most 80 columns.
std::string BudgetTable(const nlohmann::json& answer, int64_t now_us);

}  // namespace kvgate::cli::terminal
