#include "gateway/prompt/history/recognition.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <type_traits>
#include <unordered_set>

#include "gateway/prompt/history/prompt_text.h"
#include "gateway/prompt/history/restored_branch.h"
#include "gateway/prompt/history/unanswered.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::history {

using parse::Chain;
using parse::Domain;
using parse::HashBytes;
using parse::Identity;
using parse::Section;

namespace {

// Shorter answers are given in many conversations.
constexpr uint32_t kTellingTokensMin = 16;
// So many telling answers in any place prove a conversation.
constexpr size_t kTellingAnswersMin = 2;
// With so many answers a conversation may have few that prove it, and is known by its first turn as
// well.
constexpr size_t kEarlyAnswers = 3;
// A conversation is known by so many of its first answers, because a client with a window of turns
// drops some of them with each request.
constexpr size_t kKeyAnswers = 4;

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
  for (const Identity& tool : tools) begin.tools = Chain(begin.tools, tool, Domain::kTools);
  return begin;
}

// Returns true if a segment counts for recognition. Volatile texts, message heads and thinking do
// not, because their presence differs between requests of one conversation.
template <typename S>
bool IsTurn(const S& segment) {
  return segment.place.section == Section::kMessages && !segment.is_volatile &&
         segment.content != parse::Content::kMessageHead && !parse::IsThinking(segment);
}

struct Score {
  size_t shared = 0;      // equal segments of turns, from the front or from the first answer on
  size_t answers = 0;     // of these, the assistant's
  bool extends = false;   // the request holds the whole branch
  bool is_all = false;    // the branch holds the whole request
  bool skips = false;     // the turns in front of the first answer differ
  bool is_whole = false;  // the branch's turns and thinking are those with which the request begins
  bool overlaps = false;  // half of the branch's segments occur, in any place
  // The branch's answers that the request has in any place, and those that it has not. They tell a
  // branch from the others of its conversation if a client has edited the turns in front of them.
  size_t num_present = 0;
  size_t num_foreign = 0;
  size_t num_telling = 0;  // of those that it has
  // The branch's last answer is one that the request has not: it went on elsewhere, as a helper or
  // before its client took turns back, and what it has learnt since is not the request's. Or both
  // have thinking, and no block of it in common.
  bool goes_elsewhere = false;
};

// Returns 1 if `a` has more of the request's answers, or fewer that the request has not; -1 if it
// is the other way round.
int CompareAnswers(const Score& a, const Score& b) {
  if (a.num_present != b.num_present) return a.num_present > b.num_present ? 1 : -1;
  if (a.num_foreign != b.num_foreign) return a.num_foreign < b.num_foreign ? 1 : -1;
  return 0;
}

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

// Returns the next turn or thinking from `at` on.
template <typename Segments>
size_t NextPart(const Segments& segments, size_t at) {
  while (at < segments.size() && !IsTurn(segments[at]) && !parse::IsThinking(segments[at])) ++at;
  return at;
}

// Returns the first segment of an answer, its thinking if it has some.
template <typename Segments>
size_t FirstAnswer(const Segments& segments) {
  size_t at = NextPart(segments, 0);
  while (at < segments.size() && segments[at].role != parse::Role::kAssistant) {
    at = NextPart(segments, at + 1);
  }
  return at;
}

// Returns true for an answer that no other conversation is likely to have.
template <typename S>
bool IsTelling(const S& answer) {
  return answer.content == parse::Content::kToolCall || answer.num_tokens >= kTellingTokensMin;
}

template <typename S>
bool IsAnswer(const S& segment) {
  return IsTurn(segment) && segment.role == parse::Role::kAssistant;
}

// Returns the first answer, and those of the next ones that are telling, one for each turn. What
// was thought before them is no part of it, because clients leave it out later.
std::vector<Identity> KeyAnswersOf(const std::vector<parse::Segment>& segments) {
  std::vector<Identity> answers;
  const auto answer = std::find_if(segments.begin(), segments.end(), IsAnswer<parse::Segment>);
  const auto first = static_cast<size_t>(answer - segments.begin());
  bool is_counted = true;  // the turn that `first` is in
  for (size_t i = first; i < segments.size() && answers.size() < kKeyAnswers; ++i) {
    const bool is_assistants = segments[i].role == parse::Role::kAssistant;
    if (i != first && (!is_assistants || is_counted)) {
      is_counted = is_counted && is_assistants;
    } else if (i == first || (IsAnswer(segments[i]) && IsTelling(segments[i]))) {
      answers.push_back(GistOf(segments[i]));
      is_counted = true;
    }
  }
  return answers;
}

// What a request holds of answers. Most requests go on from the branch that is looked at first, and
// never ask for it.
class Answers {
 public:
  explicit Answers(const parse::RequestLayout& layout) : layout_(layout) {}
  struct Sets {
    std::unordered_set<Identity> texts;
    std::unordered_set<Identity> thinking;
  };
  const Sets& sets() {
    if (sets_) return *sets_;
    sets_.emplace();
    for (const parse::Segment& segment : layout_.segments) {
      if (IsAnswer(segment)) sets_->texts.insert(GistOf(segment));
      if (parse::IsThinking(segment)) sets_->thinking.insert(GistOf(segment));
    }
    return *sets_;
  }

 private:
  const parse::RequestLayout& layout_;
  std::optional<Sets> sets_;
};

void AddAnswers(const Branch& branch, Answers& request, Score& score) {
  if (score.is_whole) {
    score.num_present = score.answers;  // and ScoreOf has counted the telling ones
    return;
  }
  score.num_telling = 0;
  const Answers::Sets& answers = request.sets();
  bool is_other = !answers.thinking.empty();
  bool has_thinking = false;
  for (const SentSegment& segment : branch.request.segments) {
    if (parse::IsThinking(segment)) {
      has_thinking = true;
      is_other = is_other && !answers.thinking.contains(GistOf(segment));
    }
    if (!IsAnswer(segment)) continue;
    const bool is_present = answers.texts.contains(GistOf(segment));
    ++(is_present ? score.num_present : score.num_foreign);
    score.goes_elsewhere = !is_present;
    score.num_telling += is_present && IsTelling(segment) ? 1 : 0;
  }
  // Both have thinking, and no block of it is the same: the answers are only alike.
  score.goes_elsewhere = score.goes_elsewhere || (has_thinking && is_other);
}

Score ScoreOf(const Branch& branch, const std::vector<parse::Segment>& now, bool by_content) {
  const SentSegments& sent = branch.request.segments;
  Score score;
  size_t b = NextPart(sent, 0);
  size_t n = NextPart(now, 0);
  // Thinking tells answers apart that are alike; where one of the two has none, it tells nothing.
  bool is_whole = true;
  const auto skip_lone_thinking = [&] {
    const bool in_sent = b < sent.size() && parse::IsThinking(sent[b]);
    const bool in_now = n < now.size() && parse::IsThinking(now[n]);
    if (in_sent == in_now) return false;
    is_whole = is_whole && !in_sent;
    (in_sent ? b : n) = in_sent ? NextPart(sent, b + 1) : NextPart(now, n + 1);
    return true;
  };
  const auto is_same = [&] {
    while (skip_lone_thinking()) {
    }
    return b < sent.size() && n < now.size() && GistOf(sent[b]) == GistOf(now[n]);
  };
  if (!is_same()) {
    b = FirstAnswer(sent);
    n = FirstAnswer(now);
    score.skips = n < now.size() && IsTelling(now[n]) && (by_content || is_same());
    score.overlaps = !by_content && !score.skips && Overlaps(sent, now);
    if (!score.skips) return score;
  }
  while (is_same()) {
    const bool is_turn = IsTurn(now[n]);
    score.shared += is_turn ? 1 : 0;
    const bool is_answer = is_turn && now[n].role == parse::Role::kAssistant;
    is_whole = is_whole && IsAnswer(sent[b]) == is_answer;
    score.answers += is_answer ? 1 : 0;
    score.num_telling += is_answer && IsTelling(sent[b]) ? 1 : 0;
    b = NextPart(sent, b + 1);
    n = NextPart(now, n + 1);
  }
  score.extends = b == sent.size() && score.shared > 0;
  score.is_all = n == now.size() && score.shared > 0;
  score.is_whole = is_whole && score.extends && !score.skips;
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

// Returns true if both branches have sent the same bytes, up to their turn `num_turns`.
bool SentAlike(const Branch& a, const Branch& b, size_t num_turns) {
  const SentSegments& left = a.request.segments;
  const SentSegments& right = b.request.segments;
  size_t i = 0;
  for (; i < left.size() && i < right.size(); ++i) {
    if (IsTurn(left[i]) && num_turns-- == 0) return true;
    if (left[i].sent_raw != right[i].sent_raw) return false;
  }
  return num_turns == 0 || (i == left.size() && i == right.size());
}

// Returns what a prompt says, the tools in front, in any order.
template <typename Segments>
std::vector<Identity> SaidBy(const Segments& segments) {
  std::vector<Identity> tools;
  std::vector<Identity> others;
  for (const auto& segment : segments) {
    if constexpr (std::is_same_v<Segments, SentSegments>) {
      if (segment.is_ours) continue;
    }
    (segment.place.section == Section::kTools ? tools : others).push_back(segment.same);
  }
  std::sort(tools.begin(), tools.end());
  tools.insert(tools.end(), others.begin(), others.end());
  return tools;
}

// Chooses among the branches of conversations that have no name. A run of turns that holds an
// answer proves a conversation. Before its first answer is known, its beginning has to be alike,
// because many conversations begin with the same words of a user.
class ContentChooser {
 public:
  explicit ContentChooser(const SecondRequest& now)
      : now_(now), body_(now.body), layout_(now.layout) {}

  Chosen Choose(std::span<const std::shared_ptr<const Branch>> branches) {
    Answers answers(layout_);
    for (const auto& branch : branches) {
      Score score = ScoreOf(*branch, layout_.segments, true);
      AddAnswers(*branch, answers, score);
      // A window may have dropped the first answer, and with it the run from the front.
      if (score.goes_elsewhere) continue;
      // A helper that began like its caller has gone on from it: the caller does so too, if it says
      // all that it said. Another conversation may have begun with the same words.
      const bool is_behind = IsGoneOnFrom(*branch, branches);
      if (is_behind && !(score.extends && SaysAllOf(*branch))) continue;
      const bool is_proof =
          (score.answers > 0 && !score.skips) || score.num_telling >= kTellingAnswersMin;
      const bool may_be = is_proof || (score.extends && IsAlike(*branch)) ||
                          (score.num_telling > 0 && BeginsAlike(*branch, now_));
      if (!may_be) continue;
      candidates_.push_back({.branch = branch, .score = score, .is_behind = is_behind});
    }
    Candidate* best = nullptr;
    for (Candidate& it : candidates_) {
      if (best == nullptr || Compare(it, *best) > 0) best = &it;
    }
    if (best == nullptr) {
      const Chosen chosen = ChooseByWords(branches);
      if (chosen.branch) return chosen;
      const std::shared_ptr<const Branch> similar = ChooseSimilar(branches, now_);
      return {.branch = similar, .extends = similar != nullptr};
    }
    // No value may pass from one conversation to another: if it may be either, it is neither.
    if (IsAmbiguous(*best)) return {};
    return {.branch = best->branch, .extends = best->score.extends};
  }

 private:
  struct Candidate {
    std::shared_ptr<const Branch> branch;
    Score score;
    bool is_behind = false;            // a first request that others have gone on from
    std::optional<size_t> words = {};  // as WordsIn, once it has been asked
  };

  // Chooses the only first request with the same first words, if the request brings its answer.
  Chosen ChooseByWords(std::span<const std::shared_ptr<const Branch>> branches) {
    if (now_.first_turn == nullptr || CountAnswers(layout_) != 1) return {};
    const Identity& words = now_.first_turn->words;
    if (words == Identity{}) return {};
    Chosen chosen;
    for (const auto& branch : branches) {
      const FirstTurn* turn = branch->first_turn.get();
      if (turn == nullptr || turn->words != words || !IsAlike(*branch)) continue;
      if (CountAnswers(*branch) > 0 || IsGoneOnFrom(*branch, branches)) continue;
      if (chosen.branch) return {};
      chosen = {.branch = branch, .extends = true};
    }
    return chosen;
  }
  // Returns true if the request says tools, system prompt and turns of the branch with the same
  // values.
  bool SaysAllOf(const Branch& branch) const {
    std::vector<Identity> own = SaidBy(layout_.segments);
    const std::vector<Identity> its = SaidBy(branch.request.segments);
    return its.size() <= own.size() && std::equal(its.begin(), its.end(), own.begin());
  }
  const PromptText& OwnText() {
    if (!own_text_) own_text_ = SystemTextOf(body_, layout_);
    return *own_text_;
  }
  bool IsAlike(const Branch& branch) {
    const std::vector<Identity> tools = ToolsOf(layout_.segments);
    if (!tools.empty() && tools == ToolsOf(branch.request.segments)) return true;
    if (SystemOf(layout_.segments) == SystemOf(branch.request.segments)) return true;
    const size_t common = NumCommon(OwnText().masks, SystemTextOf(branch).masks);
    return common * 2 >= OwnText().masks.size();
  }
  // Returns how many words of the request's system prompt the branch's has.
  size_t WordsIn(Candidate& candidate) {
    if (!candidate.words) {
      candidate.words = NumCommon(OwnText().words, SystemTextOf(*candidate.branch).words);
    }
    return *candidate.words;
  }
  // Branches with more of the request's answers and fewer others are better, then runs from the
  // first turn on, those that the request goes on from, longer runs, and then those whose system
  // prompt has more of the request's words.
  int Compare(Candidate& a, Candidate& b) {
    if (const int order = CompareAnswers(a.score, b.score); order != 0) return order;
    if (a.score.skips != b.score.skips) return a.score.skips ? -1 : 1;
    if (a.is_behind != b.is_behind) return a.is_behind ? -1 : 1;
    if (a.score.extends != b.score.extends) return a.score.extends ? 1 : -1;
    if (a.score.shared != b.score.shared) return a.score.shared > b.score.shared ? 1 : -1;
    if (a.branch->origin == b.branch->origin) return 0;
    const size_t in_a = WordsIn(a);
    const size_t in_b = WordsIn(b);
    return in_a == in_b ? 0 : in_a > in_b ? 1 : -1;
  }
  bool IsAmbiguous(Candidate& best) {
    return std::any_of(candidates_.begin(), candidates_.end(), [&](Candidate& it) {
      if (it.branch->origin == best.branch->origin || it.score.extends != best.score.extends) {
        return false;
      }
      // A request without a new turn repeats one of its own conversation, or another one has had
      // the same turns before it.
      if (best.score.is_all && it.score.shared < best.score.shared) {
        const size_t words = WordsIn(best);
        return words < OwnText().words.size() && WordsIn(it) >= words;
      }
      constexpr size_t kAll = std::numeric_limits<size_t>::max();
      return Compare(it, best) == 0 && !SentAlike(*it.branch, *best.branch, kAll);
    });
  }

  const SecondRequest& now_;
  const std::string_view body_;
  const parse::RequestLayout& layout_;
  std::optional<PromptText> own_text_;
  std::vector<Candidate> candidates_;
};

// Returns true if most lines of the request's system prompt are the branch's, or its tools, where
// there is no system prompt.
bool IsOfOneAgent(const Branch& branch, const SecondRequest& now, const PromptText& system) {
  if (system.masks.empty()) {
    return ToolsOf(now.layout.segments) == ToolsOf(branch.request.segments);
  }
  return NumCommon(system.masks, SystemTextOf(branch).masks) * 2 >= system.masks.size();
}

// Returns true if a request that begins afresh, and shares so many turns with `best`, may as well
// be of another conversation that has the same name: a helper of the same agent, to which other
// bytes were sent. A compaction leaves no turn that would tell whose it is.
bool MayBeAnothers(BranchSpan branches, const SecondRequest& now, const Branch& best,
                   size_t shared) {
  std::optional<PromptText> system;
  return std::any_of(branches.begin(), branches.end(), [&](const auto& branch) {
    if (branch->origin == best.origin || SentAlike(*branch, best, shared)) return false;
    if (!system) system = SystemTextOf(now.body, now.layout);
    return IsOfOneAgent(*branch, now, *system);
  });
}

// Chooses among the branches of a conversation with a name, which its helpers share.
Chosen ChooseNamed(BranchSpan branches, const SecondRequest& now) {
  const parse::RequestLayout& layout = now.layout;
  struct Candidate {
    std::shared_ptr<const Branch> branch;
    Score score;
  };
  Answers answers(layout);
  // A first request, or a compaction.
  const bool is_afresh =
      std::none_of(layout.segments.begin(), layout.segments.end(), IsAnswer<parse::Segment>);
  std::vector<Candidate> candidates;
  for (const auto& branch : branches) {
    Score score = ScoreOf(*branch, layout.segments, false);
    AddAnswers(*branch, answers, score);
    if (score.goes_elsewhere && !is_afresh) continue;
    if (score.shared > 0 || score.overlaps) candidates.push_back({branch, score});
    // The newest come first: no older one holds more of a request that brings one answer to it.
    if (score.extends && !score.skips && Follows(*branch, layout)) break;
  }
  // A branch whose turns occur in another order is only taken if no other begins like the request.
  const auto compare = [&](const Score& a, const Score& b) {
    if ((a.shared > 0) != (b.shared > 0)) return a.shared > 0 ? 1 : -1;
    const int order = is_afresh ? 0 : CompareAnswers(a, b);
    if (order != 0) return order;
    if (a.skips != b.skips) return a.skips ? -1 : 1;
    if (a.shared != b.shared) return a.shared > b.shared ? 1 : -1;
    return static_cast<int>(a.extends) - static_cast<int>(b.extends);
  };
  const Candidate* best = nullptr;
  for (const Candidate& it : candidates) {
    if (best == nullptr || compare(it.score, best->score) > 0) best = &it;
  }
  if (best == nullptr) return {.branch = ChooseUnanswered(branches, now)};
  // Turns in front of all answers are the same in many branches: a helper begins like its caller,
  // and a compaction leaves the first words. They tell nothing of whose values a branch holds.
  const bool is_proof = best->score.answers > 0 || best->score.extends;
  const bool is_ambiguous =
      std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& it) {
        const bool is_even = is_proof    ? compare(it.score, best->score) == 0
                             : is_afresh ? true
                                         : CompareAnswers(it.score, best->score) == 0;
        return is_even && !SentAlike(*it.branch, *best->branch, best->score.shared);
      });
  if (is_ambiguous) return {};
  if (is_afresh && !is_proof && MayBeAnothers(branches, now, *best->branch, best->score.shared)) {
    return {};
  }
  return {.branch = best->branch, .extends = best->score.extends};
}

// Returns a number of which each bit depends on each one of the other (SplitMix64).
uint64_t Mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

// Returns identities of the agent that a system prompt belongs to: each is that of one of its
// lines, without its values, so that it stays if others say something else. Two are enough: a line
// in two hundred that changes hits both of them in one of 40,000 agents.
std::vector<Identity> AgentsOf(std::string_view body, const parse::RequestLayout& layout,
                               std::string_view tenant) {
  std::vector<uint64_t> masks;
  size_t num_masked = 0;  // bytes
  for (const parse::Segment& segment : layout.segments) {
    if (segment.place.section != Section::kSystem || segment.text.empty()) continue;
    const std::string_view json = segment.text.In(body);
    AddMasks(json.substr(0, kMaskedBytes - std::min(kMaskedBytes, num_masked)), tenant, masks);
    num_masked += json.size();
  }
  std::vector<Identity> agents;
  if (masks.empty()) return agents;
  for (const uint64_t salt : {uint64_t{0x9E3779B97F4A7C15}, uint64_t{0xC2B2AE3D27D4EB4F}}) {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (const uint64_t mask : masks) least = std::min(least, Mixed(mask ^ salt));
    agents.push_back({.low = least, .high = salt});
  }
  return agents;
}

}  // namespace

std::vector<Identity> Recognition::LookedUp() const {
  std::vector<Identity> all = keys;
  if (first_turn && continues) {
    all.insert(all.end(), first_turn->kin.begin(), first_turn->kin.end());
  }
  return all;
}

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
  const size_t num_answers = CountAnswers(args.layout);
  if (num_answers <= kEarlyAnswers) {
    found.first_turn =
        std::make_shared<FirstTurn>(ReadFirstTurn(args.body, args.layout, args.tenant));
  }
  Named named = NamedConversation(args);
  found.origin = named.origin;
  if (!found.by_content()) {
    found.keys.push_back(key_of(named.origin, HashBytes(named.key, Domain::kConversation)));
    return found;
  }
  // The whole beginning, and what is left of it if system prompt, tools or model have changed, or
  // if the first turn has.
  found.keys.push_back(key_of("all", Chain(found.shape, begin.first_user)));
  if (begin.first_user != Identity{}) found.keys.push_back(key_of("opening", begin.first_user));
  if (num_answers <= 1 && found.first_turn->words != Identity{}) {
    found.keys.push_back(key_of("words", found.first_turn->words));
  }
  for (const Identity& answer : KeyAnswersOf(args.layout.segments)) {
    found.keys.push_back(key_of("answer", answer));
  }
  if (num_answers <= 1) {
    for (const Identity& agent : AgentsOf(args.body, args.layout, args.tenant)) {
      found.first_turn->kin.push_back(key_of("kin", Chain(begin.model, agent)));
    }
  }
  return found;
}

Chosen ChooseBranch(std::span<const std::shared_ptr<const Branch>> branches, std::string_view body,
                    const parse::RequestLayout& layout, const Recognition& recognition) {
  if (!recognition.may_go_on()) return {};
  if (!recognition.holds_history && !branches.empty()) {
    const Identity system = SystemOf(layout.segments);
    const auto found = std::find_if(branches.begin(), branches.end(), [&](const auto& branch) {
      return SystemOf(branch->request.segments) == system;
    });
    return {.branch = found == branches.end() ? branches.front() : *found, .extends = true};
  }
  const SecondRequest now{
      .body = body, .layout = layout, .first_turn = recognition.first_turn.get()};
  if (recognition.by_content()) return ContentChooser(now).Choose(branches);
  return ChooseNamed(branches, now);
}

bool IsNext(const Chosen& chosen, const parse::RequestLayout& layout) {
  return chosen.extends && Follows(*chosen.branch, layout);
}

}  // namespace kvgate::prompt::history
