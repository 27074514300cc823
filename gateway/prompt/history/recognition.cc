#include "gateway/prompt/history/recognition.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::history {

using parse::Chain;
using parse::Domain;
using parse::HashBytes;
using parse::Identity;
using parse::Section;

namespace {

// Returns the string `value`, or the string in its member `name`; empty if there is neither.
std::string StringIn(std::string_view value, std::string_view name) {
  std::string text;
  if (value.starts_with('"')) {
    if (!parse::DecodeString(value, text)) text.clear();
    return text;
  }
  parse::JsonScanner scanner(value);
  scanner.Object([&](const parse::JsonScanner::Name& member) {
    const std::optional<parse::Span> inside = scanner.Value();
    if (!inside) return false;
    if (parse::NameIs(member.span.In(value), name) && !parse::DecodeString(inside->In(value), text))
      text.clear();
    return true;
  });
  return text;
}

struct Named {
  std::string key;
  std::string_view origin;
};

// Returns the caller's own name for its conversation; the key is empty if it gives none.
Named NamedConversation(const RecognitionArgs& args) {
  if (!args.session.empty()) return {std::string(args.session), "x-kvgate-session"};
  struct Field {
    std::string_view parameter;
    std::string_view member;
    std::string_view origin;
  };
  static constexpr std::array<Field, 3> kFields = {{
      {"metadata", "user_id", "metadata.user_id"},
      {"conversation", "id", "conversation"},
      {"prompt_cache_key", "", "prompt_cache_key"},
  }};
  for (const Field& field : kFields) {
    const parse::Parameter* parameter = args.layout.Find(field.parameter);
    if (parameter == nullptr) continue;
    std::string key = StringIn(parameter->value.In(args.body), field.member);
    // A user_id without a session in it names a person, who has many conversations.
    const bool is_person =
        field.parameter == "metadata" && key.find("session") == std::string::npos;
    if (!key.empty() && !is_person) return {std::move(key), field.origin};
  }
  return {"", "content"};
}

bool InTurns(const parse::Segment& segment) { return segment.place.section == Section::kMessages; }

// Returns an identity that is equal for a text as a string and as a block in a list.
template <typename S>
Identity GistOf(const S& segment) {
  return segment.said == Identity{} ? segment.stable : segment.said;
}

// Stable identities of the parts with which a conversation begins.
struct Beginning {
  Identity model;
  Identity tools;
  Identity system;
  Identity first_user;
  bool has_tools = false;
};

Beginning BeginningOf(const parse::RequestLayout& layout) {
  Beginning begin;
  begin.model = HashBytes(layout.model, Domain::kConversation);
  std::vector<Identity> tools;
  int32_t first_user = -1;
  for (const parse::Segment& segment : layout.segments) {
    if (segment.place.section == Section::kTools) {
      tools.push_back(segment.stable);
    } else if (segment.is_volatile) {
      continue;
    } else if (segment.place.section == Section::kSystem) {
      begin.system = Chain(begin.system, segment.stable);
    } else if (segment.role == parse::Role::kUser) {
      // Only the text counts, be it a string or in a list of blocks.
      if (segment.content == parse::Content::kMessageHead) continue;
      if (first_user != -1 && segment.place.element != first_user) break;
      first_user = segment.place.element;
      begin.first_user = Chain(begin.first_user, GistOf(segment));
    }
  }
  std::sort(tools.begin(), tools.end());
  begin.has_tools = !tools.empty();
  for (const Identity& tool : tools) begin.tools = Chain(begin.tools, tool, Domain::kTools);
  return begin;
}

// Returns true if a segment counts for recognition. Volatile texts and message heads do not,
// because their presence differs between requests of one conversation.
template <typename S>
bool IsTurn(const S& segment) {
  return segment.place.section == Section::kMessages && !segment.is_volatile &&
         segment.content != parse::Content::kMessageHead;
}

template <typename Segments>
size_t NextTurn(const Segments& segments, size_t at) {
  while (at < segments.size() && !IsTurn(segments[at])) ++at;
  return at;
}

struct Score {
  size_t shared = 0;      // equal segments of turns from the front
  bool extends = false;   // the whole branch is shared
  bool overlaps = false;  // half of the branch's segments occur, in any place
};

template <typename Segments>
bool Overlaps(const SentSegments& sent, const Segments& now) {
  std::unordered_set<Identity> known;
  for (const SentSegment& segment : sent) {
    if (IsTurn(segment)) known.insert(GistOf(segment));
  }
  size_t turns = 0;
  size_t common = 0;
  for (const auto& segment : now) {
    if (!IsTurn(segment)) continue;
    ++turns;
    common += known.contains(GistOf(segment)) ? 1 : 0;
  }
  return common >= 2 && common * 2 >= std::min(turns, known.size());
}

template <typename Segments>
Score ScoreOf(const Branch& branch, const Segments& now) {
  const SentSegments& sent = branch.request.segments;
  Score score;
  size_t b = NextTurn(sent, 0);
  size_t n = NextTurn(now, 0);
  while (b < sent.size() && n < now.size() && GistOf(sent[b]) == GistOf(now[n])) {
    ++score.shared;
    b = NextTurn(sent, b + 1);
    n = NextTurn(now, n + 1);
  }
  score.extends = b == sent.size() && score.shared > 0;
  score.overlaps = score.shared == 0 && Overlaps(sent, now);
  return score;
}

template <typename Segments>
Identity SystemOf(const Segments& segments) {
  Identity system;
  for (const auto& segment : segments) {
    if (segment.place.section != Section::kSystem || segment.is_volatile) continue;
    system = Chain(system, segment.stable);
  }
  return system;
}

}  // namespace

Recognition Recognize(const RecognitionArgs& args) {
  Recognition found;
  const Beginning begin = BeginningOf(args.layout);
  found.shape = Chain(Chain(begin.model, begin.tools), begin.system, Domain::kShape);
  found.beginning = Chain(found.shape, begin.first_user);
  found.holds_history = parse::HoldsHistory(args.body, args.layout);
  found.continues = std::any_of(
      args.layout.segments.begin(), args.layout.segments.end(), [](const parse::Segment& segment) {
        return InTurns(segment) && segment.role == parse::Role::kAssistant;
      });
  const Identity scope = Chain(HashBytes(args.tenant, Domain::kConversation),
                               HashBytes(args.upstream, Domain::kConversation));
  const auto key_of = [&](std::string_view kind, const Identity& value) {
    return Chain(Chain(scope, HashBytes(kind, Domain::kConversation)), value,
                 Domain::kConversation);
  };
  Named named = NamedConversation(args);
  found.origin = named.origin;
  if (!found.by_content()) {
    found.keys.push_back(key_of(named.origin, HashBytes(named.key, Domain::kConversation)));
    return found;
  }
  // The whole beginning, and what remains of it if tools and model, or the system prompt, have
  // changed.
  found.keys.push_back(key_of("all", Chain(found.shape, begin.first_user)));
  found.keys.push_back(key_of("system", Chain(begin.system, begin.first_user)));
  if (begin.has_tools) {
    found.keys.push_back(key_of("tools", Chain(begin.tools, begin.first_user)));
  }
  return found;
}

Chosen ChooseBranch(std::span<const std::shared_ptr<const Branch>> branches,
                    const parse::RequestLayout& layout, const Recognition& recognition) {
  if (!recognition.may_go_on()) return {};
  if (!recognition.holds_history && !branches.empty()) {
    const Identity system = SystemOf(layout.segments);
    const auto found = std::find_if(branches.begin(), branches.end(), [&](const auto& branch) {
      return SystemOf(branch->request.segments) == system;
    });
    return {.branch = found == branches.end() ? branches.front() : *found, .extends = true};
  }
  std::shared_ptr<const Branch> best;
  std::shared_ptr<const Branch> overlapping;
  Score best_score;
  for (const auto& branch : branches) {
    const Score score = ScoreOf(*branch, layout.segments);
    if (score.overlaps && !overlapping) overlapping = branch;
    // Many conversations begin with the same first turn, so it alone proves nothing.
    const size_t least = recognition.by_content() && !score.extends ? 2 : 1;
    if (score.shared < least) continue;
    const bool better = score.shared > best_score.shared ||
                        (score.shared == best_score.shared && score.extends && !best_score.extends);
    if (!best || better) {
      best = branch;
      best_score = score;
    }
  }
  if (!best) return {.branch = overlapping};
  return {.branch = best, .extends = best_score.extends};
}

}  // namespace kvgate::prompt::history
