#include "gateway/cli/terminal/record_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"
#include "gateway/cli/terminal/screen.h"

namespace kvgate::cli::terminal {
namespace {

using Json = nlohmann::json;

// The letter and the colour (of 256) under which a source stands in the ribbon.
struct SourceMark {
  std::string_view source;
  char letter;
  int colour;
};
constexpr std::array<SourceMark, 9> kSources = {{{"tools", 'T', 33},
                                                 {"system", 'S', 208},
                                                 {"examples", 'E', 35},
                                                 {"history", 'H', 244},
                                                 {"summary", 'Z', 177},
                                                 {"retrieval", 'R', 37},
                                                 {"tool_results", 'O', 179},
                                                 {"media", 'M', 204},
                                                 {"user", 'U', 81}}};

// What became of a prompt's tokens.
struct States {
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  int64_t nanodollars = 0;
  int64_t total() const { return cached + written + uncached; }
  void Add(const States& other) {
    cached += other.cached;
    written += other.written;
    uncached += other.uncached;
    nanodollars += other.nanodollars;
  }
};

States StatesOf(const Json& part) {
  return {.cached = CountOf(part, "cached"),
          .written = CountOf(part, "written"),
          .uncached = CountOf(part, "uncached"),
          .nanodollars = CountOf(part, "nanodollars")};
}

// A stretch of the prompt of one source.
struct Stretch {
  std::string source;
  std::string name;  // of its tool
  States states;
};

// In prompt order: the segments, else the sources.
std::vector<Stretch> StretchesOf(const Json& record) {
  std::vector<Stretch> stretches;
  for (const Json& segment : FieldOf(record, "segments")) {
    std::string name = TextOf(segment, "name");
    if (const std::string server = TextOf(segment, "server"); !server.empty()) {
      name = server + ": " + name;
    }
    stretches.push_back({TextOf(segment, "source"), std::move(name), StatesOf(segment)});
  }
  if (!stretches.empty()) return stretches;
  const Json attribution = FieldOf(record, "attribution");
  for (const auto& [source, states] : attribution.items()) {
    stretches.push_back({source, "", StatesOf(states)});
  }
  return stretches;
}

const SourceMark& MarkOf(std::string_view source) {
  static constexpr SourceMark kOther = {"", '?', 250};
  const auto found = std::find_if(kSources.begin(), kSources.end(),
                                  [&](const SourceMark& mark) { return mark.source == source; });
  return found == kSources.end() ? kOther : *found;
}

std::string Coloured(std::string text, int colour, bool is_styled) {
  return is_styled ? fmt::format("\x1b[38;5;{}m{}\x1b[0m", colour, text) : text;
}

// Two lines: what the cache did with each part ("█" cached, "▓" written, "░" computed), and under
// it the letter of its source.
std::array<std::string, 2> Ribbon(const std::vector<Stretch>& stretches, const TextArgs& args) {
  int64_t total = 0;
  for (const Stretch& stretch : stretches) total += stretch.states.total();
  const auto columns = static_cast<int64_t>(std::clamp<size_t>(args.columns, 20, 160) - 2);
  std::array<std::string, 2> lines;
  int64_t before = 0;
  const auto add = [&](int64_t tokens, const SourceMark& mark, const char* glyph) {
    const int64_t begin = total == 0 ? 0 : before * columns / total;
    before += tokens;
    const int64_t end = total == 0 ? 0 : before * columns / total;
    std::string glyphs;
    for (int64_t i = begin; i < end; ++i) glyphs += glyph;
    lines[0] += Coloured(std::move(glyphs), mark.colour, args.is_styled && end > begin);
    lines[1].append(static_cast<size_t>(end - begin), mark.letter);
  };
  for (const Stretch& stretch : stretches) {
    const SourceMark& mark = MarkOf(stretch.source);
    add(stretch.states.cached, mark, "█");
    add(stretch.states.written, mark, "▓");
    add(stretch.states.uncached, mark, "░");
  }
  return lines;
}

std::string StatesLine(const std::string& name, const States& states, int64_t total,
                       bool has_cost) {
  return fmt::format("{} {:>8} {:>7} {:>8} {:>8} {:>8} {:>12}", Padded(name, 26),
                     Tokens(states.total()),
                     Percent(static_cast<double>(states.total()), static_cast<double>(total)),
                     Tokens(states.cached), Tokens(states.written), Tokens(states.uncached),
                     has_cost ? Dollars(states.nanodollars) : "-");
}

// The sources in prompt order, with the ten largest tools of those that have any.
void AddTable(const Json& record, const std::vector<Stretch>& stretches, const TextArgs& args,
              std::vector<std::string>& lines) {
  constexpr size_t kToolsMax = 10;
  std::vector<std::pair<std::string, States>> sources;
  std::map<std::string, std::map<std::string, States>> tools;
  int64_t total = 0;
  for (const Stretch& stretch : stretches) {
    auto at = std::find_if(sources.begin(), sources.end(),
                           [&](const auto& source) { return source.first == stretch.source; });
    if (at == sources.end()) at = sources.insert(sources.end(), {stretch.source, States()});
    at->second.Add(stretch.states);
    if (!stretch.name.empty()) tools[stretch.source][stretch.name].Add(stretch.states);
    total += stretch.states.total();
  }
  const bool has_cost = FieldOf(record, "cost").is_object();
  const Json attribution = FieldOf(record, "attribution");
  lines.push_back(Styled(fmt::format("{:<26} {:>8} {:>7} {:>8} {:>8} {:>8} {:>12}", "  SOURCE",
                                     "TOKENS", "SHARE", "CACHED", "WRITTEN", "UNCACHED", "COST"),
                         Style::kDim, args.is_styled));
  for (auto& [source, states] : sources) {
    // The exact share of the cost stands with the source.
    states.nanodollars = CountOf(FieldOf(attribution, source.c_str()), "nanodollars");
    const SourceMark& mark = MarkOf(source);
    lines.push_back(
        Coloured(StatesLine(fmt::format("{} {}", mark.letter, source), states, total, has_cost),
                 mark.colour, args.is_styled));
    std::vector<std::pair<std::string, States>> named(tools[source].begin(), tools[source].end());
    std::stable_sort(named.begin(), named.end(), [](const auto& one, const auto& other) {
      return one.second.total() > other.second.total();
    });
    for (size_t i = 0; i < std::min(named.size(), kToolsMax); ++i) {
      lines.push_back(StatesLine("    " + named[i].first, named[i].second, total, false));
    }
    if (named.size() > kToolsMax) {
      lines.push_back(fmt::format("    and {} more", named.size() - kToolsMax));
    }
  }
}

void AddBreak(const Json& found, const TextArgs& args, std::vector<std::string>& lines) {
  const std::string cause = TextOf(found, "cause");
  if (cause.empty() || cause == "none") return;
  lines.emplace_back();
  const std::string path = TextOf(found, "path");
  lines.push_back(Styled(fmt::format("the cached prefix ended early: {}{}", Shown(cause, 40),
                                     path.empty() ? "" : " at " + Shown(path, 60)),
                         Style::kWarning, args.is_styled));
  lines.push_back(fmt::format("  {} of {} tokens that could have been read were not: {}",
                              Tokens(CountOf(found, "lost_tokens")),
                              Tokens(CountOf(found, "reusable_tokens")),
                              Dollars(CountOf(found, "lost_nanodollars"))));
  if (const std::string verdict = TextOf(found, "verdict"); !verdict.empty()) {
    lines.push_back("  " + Shown(verdict, 512));
  }
  const std::string before = TextOf(found, "before");
  const std::string after = TextOf(found, "after");
  if (before.empty() && after.empty()) return;
  lines.push_back(Styled("  - " + Shown(before, args.columns - 4), Style::kBad, args.is_styled));
  lines.push_back(Styled("  + " + Shown(after, args.columns - 4), Style::kGood, args.is_styled));
}

void AddTimings(const Json& timings, std::vector<std::string>& lines) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kTimes = {
      {{"queue", "queue_us"},
       {"prefill", "prefill_us"},
       {"first token", "ttft_us"},
       {"decode", "decode_us"},
       {"each token", "tpot_us"},
       {"longest gap", "itl_us_max"},
       {"in all", "total_us"}}};
  std::string line;
  for (const auto& [name, key] : kTimes) {
    const int64_t time = CountOf(timings, key, -1);
    if (time < 0) continue;
    if (!line.empty()) line += ", ";
    line += fmt::format("{} {}", name, Duration(time));
  }
  if (!line.empty()) lines.push_back("times        " + line);
}

std::string Outcome(const Json& record) {
  const std::string outcome = TextOf(record, "outcome");
  const int64_t status = CountOf(record, "status");
  if (outcome == "complete" && status < 400) return "ok";
  return outcome == "complete" || outcome.empty()
             ? fmt::format("{}", status)
             : fmt::format("{} {}", Shown(outcome, 12), status);
}

}  // namespace

std::string RecordHeading(const TextArgs& args) {
  return Styled(fmt::format("{:<8}  {:<20} {:<10} {:>7} {:>7} {:>6} {:>10} {:>8}  {}", "TIME",
                            "MODEL", "UPSTREAM", "INPUT", "CACHED", "OUTPUT", "COST", "FIRST",
                            "OUTCOME, WHY NOT ALL WAS CACHED"),
                Style::kDim, args.is_styled);
}

std::string RecordLine(const Json& record, const TextArgs& args) {
  const Json usage = FieldOf(record, "usage");
  const Json cost = FieldOf(record, "cost");
  const Json found = FieldOf(record, "break");
  const int64_t input = CountOf(usage, "input_tokens");
  const std::string cause = TextOf(found, "cause");
  std::string end = Outcome(record);
  const bool is_ok = end == "ok";
  const int64_t lost = CountOf(found, "lost_tokens");
  if (!cause.empty() && cause != "none") end += "  " + Shown(cause, 30);
  if (lost > 0) end += fmt::format(" (-{})", Tokens(lost));
  const std::string front = fmt::format(
      "{:<8}  {} {} {:>7} {:>7} {:>6} {:>10} {:>8}  ", TimeOfDay(CountOf(record, "time_us")),
      Padded(TextOf(record, "model"), 20), Padded(TextOf(record, "upstream"), 10),
      usage.is_object() ? Tokens(input) : "-",
      Percent(static_cast<double>(CountOf(usage, "cache_read_tokens")), static_cast<double>(input)),
      usage.is_object() ? Tokens(CountOf(usage, "output_tokens")) : "-",
      cost.is_object() ? Dollars(CountOf(cost, "nanodollars")) : "-",
      Duration(CountOf(FieldOf(record, "timings"), "ttft_us", -1)));
  const Style style = !is_ok ? Style::kBad : lost > 0 ? Style::kWarning : Style::kPlain;
  return front + Styled(end, style, args.is_styled);
}

std::vector<std::string> ContextLines(const Json& record, const TextArgs& args) {
  std::vector<std::string> lines;
  const Json usage = FieldOf(record, "usage");
  const Json cost = FieldOf(record, "cost");
  lines.push_back(
      Styled(fmt::format("{}  {} at {}  {}  {}", Shown(TextOf(record, "id"), 32),
                         Shown(TextOf(record, "model"), 60), Shown(TextOf(record, "upstream"), 30),
                         TimeOfDay(CountOf(record, "time_us"), true), Outcome(record)),
             Style::kBold, args.is_styled));
  if (const std::string error = TextOf(record, "error"); !error.empty()) {
    lines.push_back(Styled(Shown(error, 512), Style::kBad, args.is_styled));
  }
  if (usage.is_object()) {
    const int64_t input = CountOf(usage, "input_tokens");
    lines.push_back(
        fmt::format("input        {} tokens, {} of them read from a cache ({}); output {}",
                    Tokens(input), Tokens(CountOf(usage, "cache_read_tokens")),
                    Percent(static_cast<double>(CountOf(usage, "cache_read_tokens")),
                            static_cast<double>(input)),
                    Tokens(CountOf(usage, "output_tokens"))));
  } else {
    lines.push_back("input        unknown: " + Shown(TextOf(record, "usage_unknown"), 60));
  }
  if (cost.is_object()) {
    lines.push_back(fmt::format("cost         {}; without a cache {}",
                                Dollars(CountOf(cost, "nanodollars")),
                                Dollars(CountOf(cost, "uncached_nanodollars"))));
  }
  AddTimings(FieldOf(record, "timings"), lines);
  std::string changes;
  for (const Json& edit : FieldOf(record, "edits")) {
    changes += fmt::format("{}{} ×{}", changes.empty() ? "" : ", ", Shown(TextOf(edit, "rule"), 64),
                           CountOf(edit, "count"));
  }
  if (!changes.empty()) lines.push_back("changed      " + changes);
  const std::vector<Stretch> stretches = StretchesOf(record);
  if (!stretches.empty()) {
    lines.emplace_back();
    for (std::string& line : Ribbon(stretches, args)) lines.push_back(std::move(line));
    const Json estimated = FieldOf(record, "estimated");
    const bool is_estimate = estimated.is_boolean() && estimated.get<bool>();
    lines.push_back(
        Styled(fmt::format("█ cached  ▓ written  ░ computed{}",
                           is_estimate ? "   (parts are estimates, sums are exact)" : ""),
               Style::kDim, args.is_styled));
    lines.emplace_back();
    AddTable(record, stretches, args, lines);
  }
  AddBreak(FieldOf(record, "break"), args, lines);
  return lines;
}

}  // namespace kvgate::cli::terminal
