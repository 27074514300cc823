// Matcher: where one text stands in its grammar, and which tokens may come next.
//
// MatcherPool owns what matchers of one grammar share and go on learning: states, transitions and
// masks. It belongs to one thread (the engine's); so do its matchers, which may outlive it.
//
// A mask may take its time. So the engine asks (Matcher::Ask) and has the pool pursue the answer:
// what is found in a moment is there at once, the rest is worked out by the pool's worker, to whom
// the grammar's table is lent until then.
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

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/grammar_memory.h"
#include "engine/text/grammar/mask/mask_table.h"

namespace kvgate::grammar {

class MaskWorker;

class Matcher : private MaskTable::User {
 public:
  explicit Matcher(std::shared_ptr<MaskTable> table);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Sets the bit of each token that may come next and clears all others: word i has tokens 64 i to
  // 64 i + 63. Tokens that end a generation may come where the text may end; control tokens never.
  //
  // Where `tokens_left`, this one included, are enough for some ending of the text, only tokens
  // behind which they still are: so the text is whole when they are used up. (One byte is one token
  // in the worst case; a vocabulary without some byte as a token may miss it.)
  // kInvalidArgument: the grammar is so ambiguous that it costs too much to go on.
  // True, and the mask stays as it was: any token may come.
  // REQUIRES: a bit for each token of the vocabulary.
  Result<bool> FillMask(std::span<uint64_t> mask, int tokens_left);

  // Goes on by a token; false, and nothing changes, where it may not come. A token that ends the
  // generation changes nothing.
  bool AcceptToken(TokenId token);

  bool CanEnd();
  // It can end and not go on.
  bool IsComplete();

  // The same, asked at once and answered later. Behind the token, if there is one, so many tokens
  // are left; 0: no mask is wanted.
  struct Question {
    std::optional<TokenId> token = {};
    int tokens_left = 0;
  };
  struct Answer {
    bool accepted = true;  // else the text stands nowhere any more
    bool can_end = false;
    bool is_complete = false;
    bool any_token = false;  // the mask says nothing
    std::vector<uint64_t> mask = {};
    std::optional<Error> error = {};  // it costs too much; the rest is not known
  };
  // REQUIRES: the last question was answered.
  void Ask(const Question& question);
  // False: so much work was too little, and some of it is done.
  bool Work(uint64_t work_max);
  bool is_answered() const { return stage_ == Stage::kAnswered; }
  // The answer is an error. Never throws.
  void Fail(Error error) noexcept;
  // REQUIRES: is_answered().
  const Answer& answer() const { return answer_; }
  MaskTable& table() { return *table_; }
  // It stands in the table no more, and is asked nothing again. So whoever holds it last, and when,
  // does not matter.
  void Leave();
  // Nobody waits for the answer any more. From any thread.
  void Abandon() { is_abandoned_.store(true, std::memory_order_relaxed); }
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }

 private:
  enum class Stage : uint8_t { kBytes, kMask, kAnswered };
  friend class MatcherPool;
  bool Begin();
  bool GoOn();

  const std::shared_ptr<MaskTable> table_;
  bool begun_ = false;  // it stands in the table
  Stage stage_ = Stage::kAnswered;
  Question question_;
  std::string_view bytes_left_;  // of the question's token
  Answer answer_;
  std::atomic<bool> is_abandoned_ = false;
  std::shared_ptr<Matcher> released_before_;  // the pool's: to let one go takes no memory
};

class MatcherPool {
 public:
  struct Options {
    // Of all answers between two calls of BeginTurn; what takes more is left to a worker. 0: no
    // worker, and all of it is done at once.
    uint64_t turn_work_max = 0;
    uint64_t answer_work_max = 30'000;           // of one of them; some 2 ms
    std::shared_ptr<GrammarMemory> memory = {};  // null: one of its own
  };
  MatcherPool();
  explicit MatcherPool(const Options& options);
  ~MatcherPool();

  // A text that has not begun.
  std::unique_ptr<Matcher> Start(const std::shared_ptr<const CompiledGrammar>& grammar);

  // Also sees to it that masks take no more than GrammarMemory leaves them.
  void BeginTurn();
  // Works on what it was asked. True: it is answered. Else `done` gets it once it is, on another
  // thread; until TakeBack was called behind that, nothing of the matcher may be touched.
  using Done = std::function<void(std::shared_ptr<Matcher>)>;
  bool Pursue(const std::shared_ptr<Matcher>& matcher, Done done);
  void TakeBack(const std::shared_ptr<Matcher>& matcher);
  // The matcher is not needed any more; what nobody needs, and is large, is given back.
  void Release(std::shared_ptr<Matcher> matcher);
  // Waits for what is being worked out; then nothing is pursued any more.
  void StopWorker();

  // What grammars and masks take, in use or not; of those that are worked on, what they took
  // before.
  size_t bytes() const;

  // Grammars whose learnings are kept when no matcher uses them; the least recently used go first.
  static constexpr size_t kTablesMax = 16;
  static constexpr size_t kIdleBytesMax = size_t{64} << 20;  // of them, grammars included
  // What a table in use may keep, however many there are.
  static constexpr size_t kKeptBytesMin = size_t{512} << 10;

 private:
  struct Held {
    std::shared_ptr<MaskTable> table;
    size_t bytes = 0;       // as it was last seen
    size_t bytes_left = 0;  // when it had forgotten what it could
  };
  // A table that the worker has.
  struct Loan {
    int num_answers = 0;                // that it owes
    std::shared_ptr<Matcher> released;  // the last of those that left meanwhile
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
  std::unique_ptr<MaskWorker> worker_;  // null: none
};

}  // namespace kvgate::grammar
