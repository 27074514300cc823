// The keys of the arrays of tables: [[upstream]], [[route]], [[key]] and [[prompt]], and what they
// share with other tables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/config/config.h"
#include "gateway/config/value.h"

namespace kvgate::config {

inline constexpr int64_t kDaySeconds = 86400;
inline constexpr int64_t kCountMax = int64_t{1} << 50;
inline constexpr double kDollarsMax = 1e12;

inline constexpr std::string_view kModes[] = {"observe", "pin", "stabilize"};
// The names are those of gateway/prompt/parse/edit.h; a test there compares both lists.
inline constexpr std::string_view kRules[] = {
    "tools_order",      "first_seen_bytes", "newlines",        "cache_control",  "ttl_dropped",
    "prompt_cache_key", "breakpoints",      "conversation_id", "volatile_moved", "volatile_held",
    "reminder_kept",    "system_slots",     "tool_slots",      "source_field",   "output_cap",
    "thinking_removed", "user_slots",       "system_turn",
    "explicit_cache"};
// One key of an array of tables, such as [[upstream]].
template <typename Element>
struct ElementKey {
  std::string_view name;
  std::optional<std::string> (*set)(const Value& value, Element& element);
};

std::span<const ElementKey<UpstreamConfig>> UpstreamKeys();
std::span<const ElementKey<RouteConfig>> RouteKeys();
std::span<const ElementKey<KeyConfig>> KeyKeys();
std::span<const ElementKey<PromptConfig>> PromptKeys();

// Returns a problem that only the whole element shows; empty if there is none.
std::string Missing(const UpstreamConfig& upstream);
std::string Missing(const RouteConfig& route);
std::string Missing(const KeyConfig& key);
std::string Missing(const PromptConfig& prompt);

// What no other element of its array has; empty: it need not differ.
template <typename Element>
std::string UniqueName(const Element& element) {
  return element.name;
}
template <>
inline std::string UniqueName(const PromptConfig& prompt) {
  return prompt.name + "@" + prompt.version;
}

}  // namespace kvgate::config
