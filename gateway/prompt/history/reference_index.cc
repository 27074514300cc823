#include "gateway/prompt/history/reference_index.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::history {

using parse::Chain;
using parse::Domain;
using parse::HashBytes;
using parse::Identity;
using parse::Section;

namespace {

// The newest assistant turns of a request by which it is found; a window keeps them.
constexpr size_t kTurnsOfRequest = 4;
// Assistant turns shorter than this are said in many conversations.
constexpr uint32_t kTellingTokensMin = 8;
// A system prompt is also found by its first and its last bytes, because both seldom change at
// once. JSON around the text is a part of them.
constexpr size_t kEndBytes = 96;
// Bounds of what one request is compared with.
constexpr size_t kConversationsOfRequest = 8;
constexpr size_t kBranchesOfConversation = 4;

bool IsTellingTurn(const SentSegment& segment) {
  return segment.place.section == Section::kMessages && segment.role == parse::Role::kAssistant &&
         segment.content != parse::Content::kMessageHead && segment.num_tokens >= kTellingTokensMin;
}

Identity GistOf(const SentSegment& segment) {
  return segment.said == Identity{} ? segment.stable : segment.said;
}

Identity KeyOf(const Identity& tenant, std::string_view kind, const Identity& value) {
  return Chain(Chain(tenant, HashBytes(kind, Domain::kConversation)), value, Domain::kConversation);
}

std::vector<Identity> TurnKeys(const Identity& tenant, const SentRequest& request) {
  std::vector<Identity> keys;
  for (size_t i = request.segments.size(); i-- > 0 && keys.size() < kTurnsOfRequest;) {
    const SentSegment& segment = request.segments[i];
    if (segment.place.section != Section::kMessages) break;
    if (IsTellingTurn(segment)) keys.push_back(KeyOf(tenant, "turn", GistOf(segment)));
  }
  return keys;
}

// Keys of the agent that sends such requests, the most telling first. Each survives another kind of
// change, and none depends on the order of the tools.
std::vector<Identity> AgentKeys(const Identity& tenant, const SentRequest& request) {
  std::vector<Identity> tools;
  Identity system;
  const SentSegment* first = nullptr;
  const SentSegment* last = nullptr;
  for (const SentSegment& segment : request.segments) {
    if (segment.place.section == Section::kTools) tools.push_back(segment.stable);
    if (segment.place.section != Section::kSystem) continue;
    if (!segment.is_volatile) system = Chain(system, segment.stable);
    if (first == nullptr) first = &segment;
    last = &segment;
  }
  std::sort(tools.begin(), tools.end());
  Identity all_tools;
  for (const Identity& tool : tools) all_tools = Chain(all_tools, tool, Domain::kTools);
  std::vector<Identity> keys;
  if (tools.empty() && first == nullptr) return keys;
  keys.push_back(KeyOf(tenant, "agent", Chain(all_tools, system)));
  if (!tools.empty()) keys.push_back(KeyOf(tenant, "tools", all_tools));
  if (first == nullptr) return keys;
  keys.push_back(KeyOf(tenant, "system", system));
  if (first->bytes == nullptr || last->bytes == nullptr) return keys;
  const std::string_view front = *first->bytes;
  const std::string_view back = *last->bytes;
  const auto key_of_end = [&](std::string_view kind, std::string_view bytes) {
    keys.push_back(KeyOf(tenant, kind, HashBytes(bytes, Domain::kConversation)));
  };
  if (front.size() >= kEndBytes) key_of_end("opening", front.substr(0, kEndBytes));
  if (back.size() >= kEndBytes) key_of_end("closing", back.substr(back.size() - kEndBytes));
  return keys;
}

// How much of a request another one shares.
struct Likeness {
  bool shares_turn = false;  // a telling one of the assistant
  uint64_t shared = 0;       // estimated tokens that both have, at any place
  uint64_t front = 0;        // estimated tokens that are equal from the beginning on
};

// `known` holds the gists of `now`.
Likeness LikenessOf(const SentRequest& before, const SentRequest& now,
                    const std::unordered_set<Identity>& known) {
  Likeness likeness;
  bool in_front = true;
  for (size_t i = 0; i < before.segments.size(); ++i) {
    const SentSegment& segment = before.segments[i];
    in_front = in_front && i < now.segments.size() &&
               now.segments[i].sent_raw == segment.sent_raw && now.segments[i].role == segment.role;
    if (in_front) likeness.front += segment.num_tokens;
    if (!known.contains(GistOf(segment))) continue;
    likeness.shared += segment.num_tokens;
    likeness.shares_turn = likeness.shares_turn || IsTellingTurn(segment);
  }
  return likeness;
}

bool HoldsSummary(const SentRequest& request) {
  return std::any_of(request.segments.begin(), request.segments.end(),
                     [](const SentSegment& it) { return it.source == parse::Source::kSummary; });
}

}  // namespace

ReferenceIndex::ReferenceIndex(const Options& options)
    : conversations_max_(std::max<size_t>(options.conversations_max, 1)),
      agents_(options.agents_max),
      turns_(options.turns_max) {}

void ReferenceIndex::Put(Map& map, const Identity& key, const Identity& conversation) const {
  Conversations& list = map.FindOrAdd(key);
  const auto found = std::find(list.begin(), list.end(), conversation);
  if (found != list.end()) {
    std::rotate(list.begin(), found, std::next(found));
    return;
  }
  if (list.size() == conversations_max_) list.pop_back();
  list.insert(list.begin(), conversation);
}

void ReferenceIndex::Remember(const Identity& tenant, const Identity& conversation,
                              const SentRequest& request) {
  const std::vector<Identity> agents = AgentKeys(tenant, request);
  const std::vector<Identity> turns = TurnKeys(tenant, request);
  const std::lock_guard lock(mutex_);
  for (const Identity& key : agents) Put(agents_, key, conversation);
  for (const Identity& key : turns) Put(turns_, key, conversation);
}

ReferenceIndex::Conversations ReferenceIndex::Lookup(const FindArgs& args) const {
  const std::vector<Identity> agents = AgentKeys(args.tenant, args.request);
  const std::vector<Identity> turns = TurnKeys(args.tenant, args.request);
  Conversations found;
  if (args.is_named) found.push_back(args.conversation);
  const std::lock_guard lock(mutex_);
  const auto take = [&](const Map& map, const std::vector<Identity>& keys) {
    for (const Identity& key : keys) {
      const Conversations* const list = map.Peek(key);
      if (list == nullptr) continue;
      for (const Identity& it : *list) {
        const bool is_new = std::find(found.begin(), found.end(), it) == found.end();
        if (is_new && found.size() < kConversationsOfRequest) found.push_back(it);
      }
    }
  };
  take(turns_, turns);
  take(agents_, agents);
  return found;
}

std::vector<Candidate> ReferenceIndex::Find(const FindArgs& args) const {
  std::vector<Candidate> candidates;
  for (const Identity& conversation : Lookup(args)) {
    const bool is_own = args.is_named && conversation == args.conversation;
    const std::array<Identity, 1> key = {conversation};
    size_t num_branches = 0;
    for (auto& branch : args.conversations.Find(key)) {
      if (!branch->request.holds_history) continue;
      if (branch->request.time_us > args.request.time_us) continue;
      candidates.push_back({.branch = std::move(branch), .is_own = is_own});
      if (++num_branches == kBranchesOfConversation) break;
    }
  }
  return candidates;
}

Reference ChooseReference(std::span<const Candidate> candidates, const SentRequest& request) {
  Reference best;
  if (candidates.empty()) return best;
  std::unordered_set<Identity> known;
  for (const SentSegment& segment : request.segments) known.insert(GistOf(segment));
  const bool holds_summary = HoldsSummary(request);
  std::tuple<bool, uint64_t, uint64_t, int64_t> best_rank;
  for (const Candidate& candidate : candidates) {
    const SentRequest& sent = candidate.branch->request;
    const Likeness likeness = LikenessOf(sent, request, known);
    // Helpers of an agent share its key, but may have nothing in common with it.
    if (candidate.is_own && likeness.shared == 0) continue;
    // A summary tells of turns that are gone, so that none of them is shared.
    const bool same =
        likeness.shares_turn || (candidate.is_own && holds_summary && !HoldsSummary(sent));
    // Within a conversation, what both have counts; among agents, what a cache can read.
    const std::tuple rank(same, same ? likeness.shared : likeness.front,
                          same ? likeness.front : likeness.shared, sent.time_us);
    if (best.branch && rank <= best_rank) continue;
    best = {.branch = candidate.branch, .same_conversation = same};
    best_rank = rank;
  }
  return best;
}

}  // namespace kvgate::prompt::history
