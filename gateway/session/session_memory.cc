#include "gateway/session/session_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "gateway/session/memory/shown.h"
#include "gateway/session/retrieval/embedding_call.h"
#include "gateway/session/retrieval/passages.h"
#include "gateway/session/retrieval/recalled_text.h"
#include "gateway/session/transcript/front_text.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session {

using retrieval::EmbeddingPace;
using retrieval::EmbeddingWork;
using retrieval::Found;
using retrieval::Meaning;
using retrieval::PassageIndex;
using retrieval::TurnTexts;
using transcript::Message;

namespace {

// Of more turns without vectors all rows of the session are read in one pass.
constexpr size_t kSingleReadsMax = 32;

bool IsCompacted(std::span<const log::LoggedTurn> turns) {
  return std::any_of(turns.begin(), turns.end(),
                     [](const log::LoggedTurn& turn) { return turn.compaction.has_value(); });
}

// What the user says now; empty: nothing.
std::string WordsOf(std::span<const Message> messages) {
  const std::optional<size_t> words = transcript::NewestWords(messages);
  if (!words) return "";
  // What was answered since has nothing to ask.
  const auto rest = messages.subspan(*words);
  const bool is_answered = std::any_of(rest.begin(), rest.end(), [](const Message& message) {
    return message.kind == transcript::Kind::kAssistant;
  });
  return is_answered ? "" : transcript::TextOf(messages[*words]);
}

// The passages of a turn of which vectors are made.
TurnTexts TextsOf(const log::LoggedTurn& turn) {
  TurnTexts texts{.turn = turn.id};
  for (retrieval::Passage& passage : retrieval::PassagesOf(turn)) {
    if (texts.texts.size() == retrieval::kTurnVectorsMax) break;
    texts.texts.push_back(std::move(passage.text));
  }
  return texts;
}

// Where in the log the prompt begins; an empty turn: what is new is all of it.
log::History::Place BeginOf(const Composed& composed, const log::Compaction* event) {
  if (event != nullptr) return {.turn = event->from_turn, .message = event->from_message};
  return composed.history.PlaceOf(0);
}

}  // namespace

Result<std::unique_ptr<retrieval::VectorBook>> OpenVectorBook(store::meta::MetaStore& meta,
                                                              const store::meta::TurnStore& turns,
                                                              std::string model) {
  const auto has_turn = [&turns](const retrieval::VectorBook::Place& place, std::string_view turn) {
    const Result<store::meta::Turn> found = turns.Get(place.tenant, turn);
    return found || found.error().code != ErrorCode::kNotFound;
  };
  return retrieval::VectorBook::Open(
      {.meta = meta, .model = std::move(model), .has_turn = has_turn});
}

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
    if (!model().empty()) LoadMeanings(args.place, *remembered.index);
  }
  return remembered;
}

void SessionMemory::LoadMeanings(const log::SessionLog::Place& place, PassageIndex& index) {
  const retrieval::VectorBook::Place at{.tenant = place.tenant, .session = place.key};
  const std::vector<std::string> turns = index.TurnsWithout(0);
  Result<void> read;
  if (turns.size() > kSingleReadsMax) {
    read = options_.vectors->ForEach(
        at, [&](const std::string& turn) { return index.TextsOf(turn); },
        [&](const std::string& turn, std::vector<Meaning> meanings) {
          index.SetMeanings(turn, std::move(meanings));
        });
  } else {
    for (const std::string& turn : turns) {
      auto kept = options_.vectors->Get(at, turn, index.TextsOf(turn));
      if (!kept) read = kept.error();
      if (kept && *kept) index.SetMeanings(turn, **std::move(kept));
    }
  }
  if (read) return;
  KVGATE_LOG(kWarning, "session", "session '{}' is searched by words: {}", place.key,
             read.error().ToString());
}

std::string SessionMemory::AskedBy(std::string_view tenant, const Remembered& remembered,
                                   std::span<const Message> messages) const {
  const bool has_meanings = remembered.index != nullptr && remembered.index->num_meanings() > 0;
  if (!has_meanings || model().empty() || pace_.IsPaused(tenant, EmbeddingPace::Use::kQuestion)) {
    return "";
  }
  return retrieval::AskedOf(WordsOf(messages));
}

void SessionMemory::NoteTurn(const Unembedded& unembedded, const log::LoggedTurn& turn) {
  if (!unembedded.is_searched) return;
  ++num_searches_[unembedded.dimensions > 0 ? 1 : 0][turn.recalled ? 1 : 0];
}

Unembedded SessionMemory::UnembeddedOf(const ComposedArgs& args) const {
  const Remembered& remembered = args.remembered;
  const bool is_left_out = remembered.index != nullptr || args.turn.compaction.has_value();
  if (!remembered.retrieves || !is_left_out) return {};
  Unembedded left{.is_searched = !WordsOf(args.turn.input).empty(),
                  .is_wanted = !model().empty(),
                  .dimensions = remembered.question.dimensions()};
  if (model().empty()) return left;
  size_t num_texts = 0;
  const auto add = [&](TurnTexts texts) {
    num_texts += texts.texts.size();
    if (!texts.texts.empty()) left.turns.push_back(std::move(texts));
    return num_texts < EmbeddingWork::kTextsMax;
  };
  if (remembered.index == nullptr) {
    for (const log::LoggedTurn& turn : args.stored) {
      if (!add(TextsOf(turn))) break;
    }
    return left;
  }
  for (const std::string& turn : remembered.index->TurnsWithout(left.dimensions)) {
    if (!add({.turn = turn, .texts = remembered.index->TextsOf(turn)})) break;
  }
  left.is_wanted = remembered.index->has_room();
  return left;
}

std::unique_ptr<EmbeddingWork> SessionMemory::BeginEmbedding(const log::SessionLog::Place& place,
                                                             Unembedded unembedded,
                                                             const log::LoggedTurn& turn) {
  if (model().empty()) return nullptr;
  if (unembedded.is_wanted) {
    TurnTexts own = TextsOf(turn);
    if (!own.texts.empty()) unembedded.turns.push_back(std::move(own));
  }
  if (unembedded.turns.empty()) return nullptr;
  auto ticket = pace_.Begin(place.tenant, place.key);
  if (ticket == nullptr) return nullptr;
  return std::make_unique<EmbeddingWork>(EmbeddingWork::Args{.book = *options_.vectors,
                                                             .ticket = std::move(ticket),
                                                             .tenant = std::string(place.tenant),
                                                             .key = std::string(place.key),
                                                             .turns = std::move(unembedded.turns),
                                                             .dimensions = unembedded.dimensions});
}

void SessionMemory::NoteVectors(std::string_view tenant, EmbeddingPace::Use use, size_t num_made) {
  pace_.Note(tenant, use, num_made > 0);
  num_vectors_[static_cast<size_t>(use)] += num_made;
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
                     .meaning = &args.remembered.question,
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
  if (options_.vectors != nullptr) {
    KVGATE_TRY_VOID(options_.vectors->Remove({.tenant = place.tenant, .session = place.key}));
  }
  if (options_.book == nullptr) return {};
  return options_.book->Remove({.tenant = place.tenant, .session = place.key});
}

void SessionMemory::Collect(metrics::TextWriter& writer) const {
  if (options_.book != nullptr) options_.book->Collect(writer);
  constexpr std::string_view kSearches = "kvgate_session_retrieval_total";
  writer.Family(kSearches, "counter",
                "Turns for which the older ones were searched, by words alone or by meaning too.");
  for (const bool by_meaning : {false, true}) {
    for (const bool is_found : {false, true}) {
      writer.Sample(
          kSearches,
          {{"by", by_meaning ? "meaning" : "words"}, {"outcome", is_found ? "found" : "nothing"}},
          num_searches_[by_meaning ? 1 : 0][is_found ? 1 : 0].load());
    }
  }
  const EmbeddingPace::Counts counts = pace_.counts();
  constexpr std::string_view kVectors = "kvgate_session_vectors_total";
  constexpr std::string_view kFailed = "kvgate_session_vector_failures_total";
  const auto write = [&](std::string_view name, const auto& values) {
    writer.Sample(name, {{"of", "passage"}}, uint64_t{values[0]});
    writer.Sample(name, {{"of", "question"}}, uint64_t{values[1]});
  };
  writer.Family(kVectors, "counter", "Vectors that were made for the search in older turns.");
  write(kVectors, num_vectors_);
  writer.Family(kFailed, "counter", "Requests for such vectors that failed, or came too late.");
  write(kFailed, counts.num_failed);
}

}  // namespace kvgate::session
