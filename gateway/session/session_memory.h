// SessionMemory: what a session's prompts say besides its turns: the facts that are kept in memory,
// and passages of turns that are no longer in the prompt, found by what the user says now.
// Thread-safe.
#pragma once

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
#include "gateway/session/compose.h"
#include "gateway/session/log/session_log.h"
#include "gateway/session/memory/memory_book.h"
#include "gateway/session/retrieval/passage_indexes.h"

namespace kvgate::session {

// What is known of a session before its next prompt is made.
struct Remembered {
  memory::Entries memory = {};
  bool retrieves = false;
  // Of the branch's turns; null: older turns were not read, because none is left out yet.
  std::unique_ptr<retrieval::PassageIndex> index = {};
};

class SessionMemory {
 public:
  struct Options {
    memory::MemoryBook* book = nullptr;  // null: nothing is kept in memory. Outlives this object
    bool retrieves = false;              // where neither session nor request say otherwise
    int64_t retrieval_tokens = 1024;     // of what is found for one turn
    size_t index_bytes_max = size_t{64} << 20;
  };
  explicit SessionMemory(const Options& options)
      : options_(options), indexes_(options.index_bytes_max) {}

  memory::MemoryBook* book() const { return options_.book; }

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

  // Keeps the index for the session's next turn.
  void Release(const log::SessionLog::Place& place, Remembered remembered);
  // The session is removed. Waits for the disk.
  Result<void> Forget(const log::SessionLog::Place& place);

 private:
  std::optional<log::Recalled> Recall(const AddArgs& args, std::string_view question) const;

  const Options options_;
  retrieval::PassageIndexes indexes_;
};

}  // namespace kvgate::session
