#include "gateway/session/session_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gateway/session/memory/shown.h"
#include "gateway/session/retrieval/recalled_text.h"
#include "gateway/session/transcript/front_text.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session {

using retrieval::Found;
using retrieval::PassageIndex;

namespace {

bool IsCompacted(std::span<const log::LoggedTurn> turns) {
  return std::any_of(turns.begin(), turns.end(),
                     [](const log::LoggedTurn& turn) { return turn.compaction.has_value(); });
}

// Where in the log the prompt begins; an empty turn: what is new is all of it.
log::History::Place BeginOf(const Composed& composed, const log::Compaction* event) {
  if (event != nullptr) return {.turn = event->from_turn, .message = event->from_message};
  return composed.history.PlaceOf(0);
}

}  // namespace

Result<Remembered> SessionMemory::Load(const LoadArgs& args) {
  Remembered remembered{.retrieves = args.retrieves.value_or(options_.retrieves)};
  const memory::MemoryBook::Place place{.tenant = args.place.tenant, .session = args.place.key};
  if (options_.book != nullptr) {
    KVGATE_TRY(memory::Memory holding, options_.book->Holding(place));
    remembered.memory = std::move(holding.entries);
    if (!args.retrieves && holding.retrieves) remembered.retrieves = *holding.retrieves;
  }
  if (remembered.retrieves && IsCompacted(args.stored)) {
    KVGATE_TRY(remembered.index, indexes_.Take({.tenant = place.tenant, .key = place.session},
                                               args.stored, args.load_branch));
  }
  return remembered;
}

Addition SessionMemory::AdditionOf(const AddArgs& args) const {
  const Composed& composed = args.composed;
  Addition addition;
  addition.memory =
      memory::NextOf({.shown = composed.history.memory_shown,
                      .now = args.remembered.memory,
                      .begins_anew = composed.history.head.empty() || args.event != nullptr});
  const std::optional<size_t> words = transcript::NewestWords(composed.input);
  // What changed is said with the next words.
  if (!words && addition.memory && !addition.memory->is_whole) addition.memory.reset();
  const bool is_left_out = args.event != nullptr || composed.history.is_compacted();
  if (words && is_left_out && args.remembered.retrieves) {
    addition.recalled = Recall(args, transcript::TextOf(composed.input[*words]));
  }
  return addition;
}

std::optional<log::Recalled> SessionMemory::Recall(const AddArgs& args,
                                                   std::string_view question) const {
  // Before anything is left out the turns are all there.
  PassageIndex of_stored;
  const PassageIndex* index = args.remembered.index.get();
  if (index == nullptr) {
    for (const log::LoggedTurn& turn : args.stored) of_stored.Add(turn);
    index = &of_stored;
  }
  const std::vector<std::string>& recalled = args.composed.history.recalled;
  const log::History::Place begin = BeginOf(args.composed, args.event);
  const std::set<std::string, std::less<>> exclude(recalled.begin(), recalled.end());
  const std::vector<Found> found =
      index->Search({.question = question,
                     .end_turn = begin.turn,
                     .end_message = begin.message,
                     .exclude = exclude,
                     .bytes_max = retrieval::BytesOfBudget(options_.retrieval_tokens)});
  if (found.empty()) return std::nullopt;
  log::Recalled said{.text = retrieval::RecalledText(found)};
  for (const Found& one : found) said.passages.push_back(one.id);
  return said;
}

void SessionMemory::Release(const log::SessionLog::Place& place, Remembered remembered) {
  if (remembered.index == nullptr) return;
  indexes_.Put({.tenant = place.tenant, .key = place.key}, std::move(remembered.index));
}

Result<void> SessionMemory::Forget(const log::SessionLog::Place& place) {
  indexes_.Drop({.tenant = place.tenant, .key = place.key});
  if (options_.book == nullptr) return {};
  return options_.book->Remove({.tenant = place.tenant, .session = place.key});
}

}  // namespace kvgate::session
