// CacheModel is a provider's cache as far as the two requests of one conversation need it: it says
// how much of a prompt can be read of what the first one stored. Its token counts differ from the
// estimates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt {

struct CacheModel {
  bool needs_breakpoints = false;
  bool tools_after_system = false;
  int64_t step = 1;
  int64_t minimum = 1024;

  struct Stop {
    std::string chain;  // identifies the prompt up to here
    int64_t tokens = 0;
    bool marked = false;
  };

  // The tokens of a segment as this provider counts them: up to a fifth more than the estimate. The
  // share depends on the beginning of its text, so that an edited text counts as it did before.
  static int64_t TokensOf(const history::SentSegment& segment) {
    const std::string_view front = std::string_view(*segment.bytes).substr(0, 48);
    return segment.num_tokens +
           segment.num_tokens * static_cast<int64_t>(std::hash<std::string_view>()(front) % 20) /
               100 +
           4;
  }

  // Returns the points at which an entry can end. `settings` holds, by section, what else the
  // prompt up to the section's end depends on.
  std::vector<Stop> Stops(const history::SentRequest& request,
                          const std::array<std::string, 3>& settings) const {
    std::vector<const history::SentSegment*> order;
    for (const parse::Section section : Sections()) {
      for (const history::SentSegment& segment : request.segments) {
        if (segment.place.section == section) order.push_back(&segment);
      }
    }
    std::vector<Stop> stops;
    parse::Identity chain;
    int64_t tokens = 0;
    size_t entered = 0;
    for (const history::SentSegment* segment : order) {
      const auto sections = Sections();
      const auto rank = static_cast<size_t>(
          std::find(sections.begin(), sections.end(), segment->place.section) - sections.begin());
      for (; entered <= rank; ++entered) {
        for (const char c : settings[static_cast<size_t>(sections[entered])]) Mix(chain, c);
      }
      Mix(chain, segment->sent_raw.low);
      Mix(chain, static_cast<uint64_t>(segment->role) << 32 |
                     static_cast<uint32_t>(segment->place.element));
      tokens += TokensOf(*segment);
      stops.push_back({ToHex(chain), tokens, segment->breakpoint.has_value()});
    }
    return stops;
  }

  // Returns the usage of a request. An empty `before` means that nothing was stored.
  ledger::reply::TokenUsage Use(const std::vector<Stop>& before,
                                const std::vector<Stop>& now) const {
    ledger::reply::TokenUsage usage;
    for (size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
      if (before[i].chain != now[i].chain) break;
      if (!needs_breakpoints || before[i].marked) usage.cache_read_tokens = now[i].tokens;
    }
    usage.cache_read_tokens -= usage.cache_read_tokens % step;
    if (usage.cache_read_tokens < minimum) usage.cache_read_tokens = 0;
    int64_t end = needs_breakpoints ? 0 : (step == 1 ? now.back().tokens : usage.cache_read_tokens);
    for (const Stop& stop : now) {
      if (needs_breakpoints && stop.marked) end = std::max(end, stop.tokens);
    }
    if (end < minimum) end = 0;
    usage.cache_write_tokens = std::max<int64_t>(0, end - usage.cache_read_tokens);
    usage.uncached_tokens = now.back().tokens - usage.cache_read_tokens - usage.cache_write_tokens;
    usage.output_tokens = 50;
    return usage;
  }

 private:
  std::array<parse::Section, 3> Sections() const {
    if (tools_after_system)
      return {parse::Section::kSystem, parse::Section::kTools, parse::Section::kMessages};
    return {parse::Section::kTools, parse::Section::kSystem, parse::Section::kMessages};
  }
  static void Mix(parse::Identity& chain, uint64_t value) {
    chain.low = (chain.low ^ value) * 0x9E3779B97F4A7C15u + 1;
    chain.high = (chain.high ^ chain.low >> 29) * 0xBF58476D1CE4E5B9u;
  }
};

}  // namespace kvgate::prompt
