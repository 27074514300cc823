#include "gateway/prompt/diagnose/prompt_difference.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/prompt/diagnose/json_difference.h"
#include "gateway/prompt/diagnose/segment_difference.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::diagnose {

using history::SentParameter;
using history::SentSegment;
using parse::Section;

namespace {

// In addition to half of an estimate, it may be off by this many tokens.
constexpr int64_t kEstimateSlack = 1024;

struct Parts {
  std::array<SegmentList, 3> lists;  // by Section
  std::array<int64_t, 3> tokens{};
  const SegmentList& operator[](Section section) const {
    return lists[static_cast<size_t>(section)];
  }
};

Parts Divide(const history::SentRequest& request) {
  Parts parts;
  for (const SentSegment& segment : request.segments) {
    const auto section = static_cast<size_t>(segment.place.section);
    parts.lists[section].push_back(&segment);
    parts.tokens[section] += segment.num_tokens;
  }
  return parts;
}

SegmentList Filtered(const SegmentList& tools, bool search) {
  SegmentList out;
  std::copy_if(tools.begin(), tools.end(), std::back_inserter(out),
               [&](const SentSegment* tool) { return IsSearchTool(*tool) == search; });
  return out;
}

const SentSegment* FirstMedia(const SegmentList& turns) {
  const auto found = std::find_if(turns.begin(), turns.end(), [](const SentSegment* segment) {
    return segment->content == parse::Content::kMedia;
  });
  return found == turns.end() ? nullptr : *found;
}

const SentParameter* FindParameter(const history::SentRequest& request, std::string_view name) {
  for (const SentParameter& parameter : request.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

bool IsThere(const SentParameter& parameter, std::string_view inside) {
  return !FindJsonValue(parameter.value, inside).empty();
}

class Comparison {
 public:
  explicit Comparison(const DifferenceArgs& args)
      : args_(args), before_(Divide(args.before)), now_(Divide(args.now)) {}

  std::optional<PromptDifference> Run() {
    std::optional<SegmentDifference> turns;
    if (comparable_) turns = CompareTurns(before_[Section::kMessages], now_[Section::kMessages]);
    for (const Section section : args_.effects.order) {
      if (auto found = Parameters(section)) return found;
      if (section == Section::kSystem && args_.effects.switches_search) {
        if (auto found = Switches(turns)) return found;
      }
      if (section == Section::kMessages) {
        if (auto found = Media()) return found;
        return turns ? Placed(section, *turns) : std::nullopt;
      }
      if (auto found = Content(section)) return found;
    }
    return std::nullopt;
  }

 private:
  // Estimated tokens of all sections that are rendered in front of this one.
  int64_t FrontOf(Section section) const {
    int64_t tokens = 0;
    for (const Section other : args_.effects.order) {
      if (other == section) break;
      tokens += now_.tokens[static_cast<size_t>(other)];
    }
    return tokens;
  }

  std::optional<PromptDifference> Placed(Section section, const SegmentDifference& found) const {
    const SegmentList& list = now_[section];
    int64_t tokens = FrontOf(section);
    for (size_t i = 0; i < std::min(found.index, list.size()); ++i) tokens += list[i]->num_tokens;
    return PromptDifference{.cause = found.cause,
                            .path = found.path,
                            .volatile_kind = found.volatile_kind,
                            .same_value = found.same_value,
                            .front_tokens = tokens,
                            .before = found.before,
                            .after = found.after};
  }

  std::optional<PromptDifference> Content(Section section) const {
    std::optional<SegmentDifference> found;
    if (section == Section::kSystem) {
      found = CompareSystem(before_[section], now_[section]);
    } else if (args_.effects.switches_search) {
      found = CompareTools(Filtered(before_[section], false), Filtered(now_[section], false));
    } else {
      found = CompareTools(before_[section], now_[section]);
    }
    return found ? Placed(section, *found) : std::nullopt;
  }

  // A value outside of the prompt, or its mere presence, that breaks the prompt.
  struct Changed {
    std::string path;
    std::string_view before = {};
    std::string_view after = {};
    bool is_ours = false;
  };
  // Reports a change that breaks everything from a section on; nullopt if more than its front was
  // read.
  std::optional<PromptDifference> From(Section section, Changed changed) const {
    const int64_t front = FrontOf(section);
    if (args_.read_tokens > front + front / 2 + kEstimateSlack) return std::nullopt;
    return PromptDifference{.cause = BreakCause::kParameterChanged,
                            .path = std::move(changed.path),
                            .front_tokens = front,
                            .is_ours = changed.is_ours,
                            .before = changed.before,
                            .after = changed.after};
  }

  std::optional<PromptDifference> Parameters(Section section) const {
    for (const ParameterEffect& effect : args_.effects.parameters) {
      if (effect.from != section) continue;
      if (auto found = Parameter(effect)) return found;
    }
    return std::nullopt;
  }

  std::optional<PromptDifference> Parameter(const ParameterEffect& effect) const {
    const size_t dot = std::min(effect.path.find('.'), effect.path.size());
    const std::string_view name = effect.path.substr(0, dot);
    const std::string_view inside = effect.path.substr(std::min(dot + 1, effect.path.size()));
    const SentParameter* const before = FindParameter(args_.before, name);
    const SentParameter* const now = FindParameter(args_.now, name);
    if (before == nullptr && now == nullptr) return std::nullopt;
    const auto value_of = [&](const SentParameter* parameter) {
      const std::string_view value =
          parameter == nullptr ? "" : FindJsonValue(parameter->value, inside);
      return value.empty() ? effect.neutral : value;
    };
    const std::string_view was = value_of(before);
    const std::string_view is = value_of(now);
    const bool is_ours = (before != nullptr && before->is_ours) || (now != nullptr && now->is_ours);
    if (was == is) {
      // Only the front of a long value is kept, but its identity covers all of it.
      const bool cut = before != nullptr && now != nullptr && before->same != now->same &&
                       !was.empty() && before->value.ends_with(was) && now->value.ends_with(is);
      return cut ? From(effect.from, {std::string(effect.path), was, is, is_ours}) : std::nullopt;
    }
    const JsonDifference inner = FindJsonDifference(was, is);
    if (inner.kind == JsonDifference::Kind::kNone) return std::nullopt;
    const bool both =
        before != nullptr && now != nullptr && IsThere(*before, inside) && IsThere(*now, inside);
    return From(effect.from,
                {std::string(effect.path) + (both ? inner.path : ""), was, is, is_ours});
  }

  // Web search and citations act as switches: for tools and documents only their presence counts.
  std::optional<PromptDifference> Switches(const std::optional<SegmentDifference>& turns) const {
    if (auto found = CompareTools(Filtered(before_[Section::kTools], true),
                                  Filtered(now_[Section::kTools], true))) {
      return From(Section::kSystem, {found->path, found->before, found->after});
    }
    if (turns && turns->path.find("].citations") != std::string::npos) {
      return From(Section::kSystem, {turns->path, turns->before, turns->after});
    }
    return std::nullopt;
  }

  std::optional<PromptDifference> Media() const {
    if (!args_.effects.media_breaks_turns || !comparable_) return std::nullopt;
    const SentSegment* const was = FirstMedia(before_[Section::kMessages]);
    const SentSegment* const is = FirstMedia(now_[Section::kMessages]);
    if ((was == nullptr) == (is == nullptr)) return std::nullopt;
    return From(Section::kMessages, {parse::PathOf((is == nullptr ? was : is)->place)});
  }

  const DifferenceArgs& args_;
  const Parts before_;
  const Parts now_;
  // If the provider holds the turns, they are in neither request.
  const bool comparable_ =
      args_.same_conversation && args_.before.holds_history && args_.now.holds_history;
};

}  // namespace

std::optional<PromptDifference> FindPromptDifference(const DifferenceArgs& args) {
  if (args.before.upstream != args.now.upstream) {
    return PromptDifference{.cause = BreakCause::kUpstreamChanged,
                            .before = args.before.upstream,
                            .after = args.now.upstream};
  }
  if (args.before.model != args.now.model) {
    return PromptDifference{.cause = BreakCause::kModelChanged,
                            .path = "model",
                            .before = args.before.model,
                            .after = args.now.model};
  }
  return Comparison(args).Run();
}

}  // namespace kvgate::prompt::diagnose
