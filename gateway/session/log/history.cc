#include "gateway/session/log/history.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "base/check.h"
#include "gateway/session/transcript/front_text.h"

namespace kvgate::session::log {
namespace {

template <typename List>
void Append(const std::vector<Message>& more, List& list) {
  list.insert(list.end(), more.begin(), more.end());
}

}  // namespace

History::Place History::PlaceOf(size_t index) const {
  KVGATE_CHECK(index <= messages.size() && !head.empty(), "there is no such message");
  if (index == messages.size()) return {.turn = head, .message = num_head_messages};
  const auto after =
      std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) { return run.begin > index; });
  const Run& run = *std::prev(after);
  return {.turn = run.turn, .message = run.first + (index - run.begin)};
}

std::string History::Note::text() const {
  return changes.empty() || recalled.empty() ? changes + recalled : changes + "\n\n" + recalled;
}

History::Note NoteOf(const std::optional<memory::Shown>& memory,
                     const std::optional<Recalled>& recalled, size_t message) {
  History::Note note{.message = message};
  if (memory && !memory->is_whole) note.changes = memory::ChangesText(memory->entries);
  if (recalled) note.recalled = recalled->text;
  return note;
}

namespace {

// Takes what the turns say of memory, and returns the index of the turn that says all of it anew:
// what those before it say of changes is in that.
size_t TakeMemory(std::span<const LoggedTurn> turns, const std::set<std::string_view>& undone,
                  History& history) {
  size_t whole = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::optional<memory::Shown>& shown = turns[i].memory;
    if (!shown || undone.contains(turns[i].id)) continue;
    if (shown->is_whole) {
      whole = i;
      history.memory = shown->entries;
      history.memory_shown = shown->entries;
    } else {
      memory::Apply(shown->entries, history.memory_shown);
    }
  }
  return whole;
}

// Puts a turn's note into its place, if that message is among those that stay.
void TakeNote(const LoggedTurn& turn, size_t skipped, bool says_changes, History& history) {
  if (!turn.memory && !turn.recalled) return;
  const std::optional<size_t> words = transcript::NewestWords(turn.input);
  if (!words || *words < skipped) return;
  History::Note note =
      NoteOf(turn.memory, turn.recalled, history.messages.size() + *words - skipped);
  if (!says_changes) note.changes.clear();
  if (note.changes.empty() && note.recalled.empty()) return;
  history.notes.push_back(std::move(note));
  if (turn.recalled) {
    const std::vector<std::string>& passages = turn.recalled->passages;
    history.recalled.insert(history.recalled.end(), passages.begin(), passages.end());
  }
}

}  // namespace

History HistoryOf(std::span<const LoggedTurn> turns) {
  History history;
  std::set<std::string_view> undone;
  for (const LoggedTurn& turn : turns) undone.insert(turn.undoes);
  const size_t whole_memory = TakeMemory(turns, undone, history);
  size_t first_turn = 0;
  uint64_t first_message = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    const LoggedTurn& turn = turns[i];
    if (turn.frame) history.frame = *turn.frame;
    if (turn.skeleton) history.skeleton = *turn.skeleton;
    if (turn.prompt) history.prompt = *turn.prompt;
    if (turn.tokens.input > 0 && turn.prompt_bytes > 0) {
      history.prompt_tokens = turn.tokens.input;
      history.prompt_bytes = turn.prompt_bytes;
    }
    if (turn.is_turn()) history.is_event_new = false;
    if (!turn.compaction || undone.contains(turn.id)) continue;
    const Compaction& event = *turn.compaction;
    history.event = turn.id;
    history.is_event_new = !turn.is_turn();
    history.tokens_before = event.tokens_before;
    history.tokens_after = event.tokens_after;
    history.kept = event.kept;
    history.summary = event.summary;
    history.num_left_out = event.num_messages;
    first_message = event.from_message;
    const std::string& from = event.from_turn.empty() ? turn.id : event.from_turn;
    const auto found = std::find_if(turns.begin(), turns.end(),
                                    [&](const LoggedTurn& other) { return other.id == from; });
    first_turn = static_cast<size_t>(found - turns.begin());
  }
  for (size_t i = first_turn; i < turns.size(); ++i) {
    std::vector<Message> said = turns[i].input;
    Append(turns[i].answer, said);
    const size_t skipped = i == first_turn ? std::min<size_t>(first_message, said.size()) : 0;
    if (skipped == said.size()) continue;
    TakeNote(turns[i], skipped, i >= whole_memory && !undone.contains(turns[i].id), history);
    history.runs_.push_back(
        {.turn = turns[i].id, .begin = history.messages.size(), .first = skipped});
    history.messages.insert(history.messages.end(),
                            said.begin() + static_cast<std::ptrdiff_t>(skipped), said.end());
  }
  if (!turns.empty()) {
    history.head = turns.back().id;
    history.num_head_messages = turns.back().input.size() + turns.back().answer.size();
    history.depth = turns.back().depth;
  }
  return history;
}

Transcript TranscriptOf(std::span<const LoggedTurn> turns) {
  Transcript transcript;
  for (const LoggedTurn& turn : turns) {
    Append(turn.input, transcript.messages);
    Append(turn.answer, transcript.messages);
    transcript.ends.push_back(transcript.messages.size());
  }
  return transcript;
}

}  // namespace kvgate::session::log
