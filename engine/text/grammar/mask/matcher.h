// Matcher: the position of one text in its grammar, and the tokens that may come next.
//
// MatcherPool owns what the matchers of one grammar share and keep extending: states, transitions
// and masks. The pool and its matchers belong to one thread (the engine's); matchers may outlive
// the pool.
//
// Computing a mask can be slow. The engine therefore asks (Matcher::Ask) and lets the pool pursue
// the answer: cheap answers are computed at once, the rest by the pool's worker thread, which
// borrows the grammar's table meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/grammar_memory.h"
#include "engine/text/grammar/mask/mask_table.h"

namespace kvgate::grammar::mask {

class MaskWorker;

class Matcher : private MaskTable::User {
 public:
  explicit Matcher(std::shared_ptr<MaskTable> table);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Sets the bit of each token that may come next and clears all others: word i holds tokens 64 i
  // to 64 i + 63. End-of-generation tokens may come if the text may end; control tokens never.
  //
  // If `tokens_left` (including this token) suffice to finish the text, only tokens that keep it so
  // are allowed, so the text is complete when the tokens run out. (This assumes that one byte costs
  // at most one token; a vocabulary that lacks a token for some byte may miss it.)
  // kInvalidArgument: the grammar is so ambiguous that continuing costs too much. Returns true, and
  // leaves the mask unchanged, if any token may come. REQUIRES: the mask has a bit for each token
  // of the vocabulary.
  Result<bool> FillMask(std::span<uint64_t> mask, int tokens_left);

  // Advances by a token. Returns false and changes nothing if it may not come. A token that ends
  // the generation does not change the position.
  bool AcceptToken(TokenId token);

  bool CanEnd();
  // The text may end and cannot continue.
  bool IsComplete();

  // The same as a question that is answered later: first accepts the token, if there is one, then
  // computes the mask with `tokens_left` tokens left. 0: no mask is wanted.
  struct Question {
    std::optional<TokenId> token = {};
    int tokens_left = 0;
  };
  struct Answer {
    bool accepted = true;  // false: the token may not come, and the text is in no state
    bool can_end = false;
    bool is_complete = false;
    bool any_token = false;  // any token may come, and the mask is not filled
    std::vector<uint64_t> mask = {};
    std::optional<Error> error = {};  // it costs too much; the other fields are not valid
  };
  // REQUIRES: the last question is answered.
  void Ask(const Question& question);
  // Returns false if `work_max` was not enough; the work done so far is kept.
  bool Work(uint64_t work_max);
  bool is_answered() const { return stage_ == Stage::kAnswered; }
  // Makes the error the answer. Never throws.
  void Fail(Error error) noexcept;
  // REQUIRES: is_answered().
  const Answer& answer() const { return answer_; }
  MaskTable& table() { return *table_; }
  // Removes the matcher from the table; it must not be asked again. Afterwards any thread may
  // destroy it at any time.
  void Leave();
  // Tells the worker that nobody waits for the answer. May be called from any thread.
  void Abandon() { is_abandoned_.store(true, std::memory_order_relaxed); }
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }

 private:
  enum class Stage : uint8_t { kBytes, kMask, kAnswered };
  friend class MatcherPool;
  bool Begin();
  bool GoOn();

  const std::shared_ptr<MaskTable> table_;
  bool begun_ = false;  // it is registered in the table
  Stage stage_ = Stage::kAnswered;
  Question question_;
  std::string_view bytes_left_;  // of the question's token, not consumed yet
  Answer answer_;
  std::atomic<bool> is_abandoned_ = false;
  std::shared_ptr<Matcher> released_before_;  // intrusive list: Release must not allocate
};

class MatcherPool {
 public:
  struct Options {
    // Work on all answers between two calls of BeginTurn; the rest goes to a worker. 0: there is no
    // worker and all answers are computed at once.
    uint64_t turn_work_max = 0;
    uint64_t answer_work_max = 30'000;           // work on one answer; about 2 ms
    std::shared_ptr<GrammarMemory> memory = {};  // null: the pool creates its own
  };
  MatcherPool();
  explicit MatcherPool(const Options& options);
  ~MatcherPool();

  // Creates a matcher at the start of the grammar.
  std::unique_ptr<Matcher> Start(const std::shared_ptr<const CompiledGrammar>& grammar);

  // Renews the turn's work, and keeps masks within what GrammarMemory leaves them.
  void BeginTurn();
  // Works on the matcher's question. Returns true if it is answered. Otherwise `done` is called
  // with the matcher on another thread later; the matcher must not be touched until TakeBack was
  // called after that.
  using Done = std::function<void(std::shared_ptr<Matcher>)>;
  bool Pursue(const std::shared_ptr<Matcher>& matcher, Done done);
  void TakeBack(const std::shared_ptr<Matcher>& matcher);
  // The matcher is no longer needed. Tables that nobody uses are freed if they are large.
  void Release(std::shared_ptr<Matcher> matcher);
  // Waits for the running answers. Pursue must not be called afterwards.
  void StopWorker();

  // Bytes of grammars and masks, in use or not. A table on loan counts with its last known size.
  size_t bytes() const;

  // Number of grammars whose tables are kept; idle ones beyond it are dropped, least recently used
  // first.
  static constexpr size_t kTablesMax = 16;
  static constexpr size_t kIdleBytesMax = size_t{64} << 20;  // of idle tables with their grammars
  // Every table in use may keep at least this much, however many there are.
  static constexpr size_t kKeptBytesMin = size_t{512} << 10;

 private:
  struct Held {
    std::shared_ptr<MaskTable> table;
    size_t bytes = 0;       // when it was last measured
    size_t bytes_left = 0;  // after it dropped all that it could
  };
  // A table that is lent to the worker.
  struct Loan {
    int num_answers = 0;                // answers that are outstanding
    std::shared_ptr<Matcher> released;  // list of matchers released during the loan; the latest one
  };
  void Trim();
  void Share();
  void ForgetOne();
  bool IsLent(const Held& held) const { return loans_.contains(held.table.get()); }
  void Discard(std::shared_ptr<const void> what, size_t bytes) noexcept;

  const Options options_;
  uint64_t turn_work_left_ = 0;
  const std::shared_ptr<GrammarMemory> memory_;
  std::list<Held> tables_;  // most recently used first
  std::unordered_map<const MaskTable*, Loan> loans_;
  std::unique_ptr<MaskWorker> worker_;  // null: no worker
};

}  // namespace kvgate::grammar::mask
