// SessionMemory: what a session's prompts say besides its turns: the facts that are kept in memory,
// and passages of turns that are no longer in the prompt, found by what the user says now: by
// words, and by meaning once a model has made vectors of them. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/metrics/registry.h"
#include "gateway/session/compose.h"
#include "gateway/session/log/session_log.h"
#include "gateway/session/memory/memory_book.h"
#include "gateway/session/retrieval/embedding_pace.h"
#include "gateway/session/retrieval/embedding_work.h"
#include "gateway/session/retrieval/passage_indexes.h"
#include "gateway/session/retrieval/vector_book.h"

namespace kvgate::session {

// What is known of a session before its next prompt is made.
struct Remembered {
  memory::Entries memory = {};
  bool retrieves = false;
  // Of the branch's turns; null: older turns were not read, because none is left out yet.
  std::unique_ptr<retrieval::PassageIndex> index = {};
  retrieval::Meaning question = {};  // of the user's newest words, if it was asked for
};

// Passages of which no vectors are known, of a session that is searched for them.
struct Unembedded {
  bool is_searched = false;                      // for the turn that is being made
  bool is_wanted = false;                        // the turn that is being made is embedded too
  std::vector<retrieval::TurnTexts> turns = {};  // before it
  size_t dimensions = 0;                         // of the question's vector; 0: it has none
};

// The vectors of turns that are kept in `turns`, by a model of that name; both outlive the book.
Result<std::unique_ptr<retrieval::VectorBook>> OpenVectorBook(store::meta::MetaStore& meta,
                                                              const store::meta::TurnStore& turns,
                                                              std::string model);

class SessionMemory {
 public:
  struct Options {
    memory::MemoryBook* book = nullptr;  // null: nothing is kept in memory. Outlives this object
    // With the name of a model: passages are found by their vectors too. Null: there are none.
    // Outlives this object.
    retrieval::VectorBook* vectors = nullptr;
    bool retrieves = false;           // where neither session nor request say otherwise
    int64_t retrieval_tokens = 1024;  // of what is found for one turn
    size_t index_bytes_max = size_t{64} << 20;
  };
  explicit SessionMemory(const Options& options)
      : options_(options), indexes_(options.index_bytes_max) {}

  memory::MemoryBook* book() const { return options_.book; }
  // The model whose vectors are used; empty: words alone are looked for.
  std::string_view model() const {
    return options_.vectors == nullptr ? std::string_view() : options_.vectors->model();
  }

  struct LoadArgs {
    log::SessionLog::Place place = {};
    std::span<const log::LoggedTurn> stored = {};            // the turns that the prompt is made of
    retrieval::PassageIndexes::LoadBranch load_branch = {};  // up to the last one of them
    std::optional<bool> retrieves = {};                      // as the request says
  };
  // Waits for the disk. Fails as `load_branch` does.
  Result<Remembered> Load(const LoadArgs& args);

  struct AddArgs {
    const Remembered& remembered;
    const Composed& composed;  // without the addition
    std::span<const log::LoggedTurn> stored = {};
    // The event by which rounds are left out of this prompt; null: none are that were not before.
    const log::Compaction* event = nullptr;
  };
  // What the new turn says besides its words.
  Addition AdditionOf(const AddArgs& args) const;

  // The text whose vector `remembered.question` should be; empty: none is of use, or the model
  // failed lately.
  std::string AskedBy(std::string_view tenant, const Remembered& remembered,
                      std::span<const transcript::Message> messages) const;
  struct ComposedArgs {
    const Remembered& remembered;
    std::span<const log::LoggedTurn> stored = {};
    const log::LoggedTurn& turn;  // as it was composed
  };
  // What to embed once the turn is answered.
  Unembedded UnembeddedOf(const ComposedArgs& args) const;
  // Counts the search that was made for a turn, which is stored.
  void NoteTurn(const Unembedded& unembedded, const log::LoggedTurn& turn);
  // Begins to embed it, and the turn that was answered; null: it is under way, or not to be done
  // now.
  std::unique_ptr<retrieval::EmbeddingWork> BeginEmbedding(const log::SessionLog::Place& place,
                                                           Unembedded unembedded,
                                                           const log::LoggedTurn& turn);
  // A request for vectors has ended, with so many of them; 0: it failed.
  void NoteVectors(std::string_view tenant, retrieval::EmbeddingPace::Use use, size_t num_made);

  // Keeps the index for the session's next turn.
  void Release(const log::SessionLog::Place& place, Remembered remembered);
  // The session is removed. Waits for the disk.
  Result<void> Forget(const log::SessionLog::Place& place);

  void Collect(metrics::TextWriter& writer) const;

 private:
  // What can be read of the vectors of its turns; a failure is logged.
  void LoadMeanings(const log::SessionLog::Place& place, retrieval::PassageIndex& index);
  std::optional<log::Recalled> Recall(const AddArgs& args, std::string_view question) const;

  const Options options_;
  retrieval::PassageIndexes indexes_;
  retrieval::EmbeddingPace pace_;
  std::array<std::atomic<uint64_t>, retrieval::EmbeddingPace::kNumUses> num_vectors_ = {};
  // Searches, by whether the question's meaning was known, and whether something was found.
  std::array<std::array<std::atomic<uint64_t>, 2>, 2> num_searches_ = {};
};

}  // namespace kvgate::session
