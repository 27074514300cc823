#include "engine/text/grammar/mask/matcher.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/text/grammar/mask/mask_worker.h"

namespace kvgate::grammar::mask {

Matcher::Matcher(std::shared_ptr<MaskTable> table) : table_(std::move(table)) {}

Matcher::~Matcher() { Leave(); }

void Matcher::Leave() {
  if (std::exchange(begun_, false)) table_->Remove(*this);
}

// --- immediate calls -------------------------------------------------------------------------

bool Matcher::Begin() {
  if (!begun_) begun_ = table_->Add(*this);
  return begun_;
}

Result<bool> Matcher::FillMask(std::span<uint64_t> mask, int tokens_left) {
  KVGATE_CHECK(mask.size() * 64 >= static_cast<size_t>(table_->grammar().trie->vocab_size()),
               "a mask is smaller than the vocabulary");
  KVGATE_CHECK(tokens_left > 0, "a mask for a token that cannot come");
  table_->SetWork(table_->work_max());
  if (!Begin()) return table_->TooMuch();
  return table_->FillMask(*this, mask, static_cast<uint32_t>(tokens_left));
}

bool Matcher::AcceptToken(TokenId token) {
  table_->SetWork(table_->work_max());
  if (!Begin()) return false;
  const TokenTrie& trie = *table_->grammar().trie;
  if (trie.is_end_token(token)) return CanEnd();
  const std::string_view bytes = trie.bytes_of(token);
  if (bytes.empty() && table_->grammar().is_open && CanEnd()) return true;
  StateId next = bytes.empty() ? StateTable::kDead : state;
  for (const char byte : bytes) {
    next = table_->states().Next(next, static_cast<uint8_t>(byte));
    if (next == StateTable::kDead || next == StateTable::kStopped) return false;
  }
  if (next == StateTable::kDead) return false;
  state = next;
  return true;
}

bool Matcher::CanEnd() { return Begin() && table_->states().can_end(state); }
bool Matcher::IsComplete() { return Begin() && table_->states().is_complete(state); }

// --- questions -------------------------------------------------------------------------------

void Matcher::Ask(const Question& question) {
  KVGATE_CHECK(is_answered(), "a question before the last one is answered");
  question_ = question;
  bytes_left_ = {};
  if (question.token) bytes_left_ = table_->grammar().trie->bytes_of(*question.token);
  stage_ = Stage::kBytes;
}

bool Matcher::Work(uint64_t work_max) {
  if (is_answered()) return true;
  table_->SetWork(work_max);
  if (!GoOn()) {
    if (work_max < table_->work_max()) return false;
    answer_.error = table_->TooMuch();
  }
  stage_ = Stage::kAnswered;
  return true;
}

void Matcher::Fail(Error error) noexcept {
  answer_.error = std::move(error);
  stage_ = Stage::kAnswered;
}

// Returns false if a limit stopped the work.
bool Matcher::GoOn() {
  if (!Begin()) return false;
  StateTable& states = table_->states();
  const bool is_open = table_->grammar().is_open;
  if (stage_ == Stage::kBytes) {
    const bool is_silent =
        question_.token && table_->grammar().trie->bytes_of(*question_.token).empty();
    answer_ = {.mask = std::move(answer_.mask)};
    while (!bytes_left_.empty()) {
      const StateId next = states.Next(state, static_cast<uint8_t>(bytes_left_.front()));
      if (next == StateTable::kStopped) return false;
      answer_.accepted = next != StateTable::kDead;
      if (!answer_.accepted) return true;
      state = next;
      bytes_left_.remove_prefix(1);
    }
    answer_.can_end = states.can_end(state);
    answer_.is_complete = states.is_complete(state);
    const bool may_be_silent =
        answer_.can_end &&
        (is_open || (is_silent && table_->grammar().trie->is_end_token(*question_.token)));
    answer_.accepted = !is_silent || may_be_silent;
    if (!answer_.accepted) return true;
    stage_ = Stage::kMask;
  }
  if (question_.tokens_left <= 0) return true;
  answer_.mask.resize((static_cast<size_t>(table_->grammar().trie->vocab_size()) + 63) / 64);
  const std::optional<bool> any =
      table_->TryFillMask(*this, answer_.mask, static_cast<uint32_t>(question_.tokens_left));
  if (any) answer_.any_token = *any;
  return any.has_value();
}

// --- the pool ---------------------------------------------------------------------------------

MatcherPool::MatcherPool() : MatcherPool(Options()) {}

MatcherPool::MatcherPool(const Options& options)
    : options_(options),
      memory_(options.memory != nullptr ? options.memory : std::make_shared<GrammarMemory>()) {
  if (options_.turn_work_max > 0) worker_ = std::make_unique<MaskWorker>();
}

MatcherPool::~MatcherPool() = default;

std::unique_ptr<Matcher> MatcherPool::Start(const std::shared_ptr<const CompiledGrammar>& grammar) {
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const Held& held) {
    return held.table->shared_grammar() == grammar;
  });
  if (known != tables_.end()) {
    tables_.splice(tables_.begin(), tables_, known);
    return std::make_unique<Matcher>(known->table);
  }
  tables_.push_front({.table = std::make_shared<MaskTable>(grammar, MaskTable::Options())});
  auto matcher = std::make_unique<Matcher>(tables_.front().table);
  Trim();
  return matcher;
}

void MatcherPool::BeginTurn() {
  turn_work_left_ = options_.turn_work_max;
  Share();
}

bool MatcherPool::Pursue(const std::shared_ptr<Matcher>& matcher, Done done) {
  MaskTable& table = matcher->table();
  if (worker_ == nullptr) {
    table.Tidy();
    return matcher->Work(table.work_max());
  }
  if (!loans_.contains(&table) && turn_work_left_ > 0 && !table.is_large()) {
    const uint64_t before = table.states().work();
    const bool is_answered = matcher->Work(std::min(options_.answer_work_max, turn_work_left_));
    turn_work_left_ -= std::min(table.states().work() - before, turn_work_left_);
    if (is_answered) return true;
  }
  const auto loan = loans_.try_emplace(&table).first;
  try {
    worker_->Post({.matcher = matcher, .done = std::move(done)});
  } catch (...) {
    if (loan->second.num_answers == 0) loans_.erase(loan);
    throw;
  }
  ++loan->second.num_answers;
  return false;
}

void MatcherPool::TakeBack(const std::shared_ptr<Matcher>& matcher) {
  const auto loan = loans_.find(&matcher->table());
  KVGATE_CHECK(loan != loans_.end(), "a table comes back that was not lent");
  if (--loan->second.num_answers > 0) return;
  std::shared_ptr<Matcher> released = std::move(loan->second.released);
  loans_.erase(loan);
  const bool has_released = released != nullptr;
  while (released != nullptr) {
    released->Leave();
    released = std::move(released->released_before_);
  }
  if (has_released) Trim();
}

void MatcherPool::Release(std::shared_ptr<Matcher> matcher) {
  const auto loan = loans_.find(&matcher->table());
  if (loan != loans_.end()) {
    matcher->Abandon();
    matcher->released_before_ = std::move(loan->second.released);
    loan->second.released = std::move(matcher);  // the worker may be using its table
    return;
  }
  matcher->Leave();
  matcher.reset();
  Trim();
}

size_t MatcherPool::bytes() const {
  size_t sum = 0;
  for (const Held& held : tables_) sum += held.bytes + held.table->grammar().automaton.bytes();
  return sum;
}

// Frees tables that no matcher uses if there are too many of them or memory is scarce.
void MatcherPool::Trim() {
  const size_t idle_bytes_max = std::min(kIdleBytesMax, memory_->options().bytes_max / 4);
  const bool is_scarce = memory_->grammar_bytes() > memory_->options().bytes_max / 4 * 3;
  size_t num_kept = 0;
  size_t bytes = 0;
  size_t idle_grammar_bytes = 0;
  for (auto at = tables_.begin(); at != tables_.end();) {
    const bool is_idle = at->table.use_count() == 1 && !IsLent(*at);
    ++num_kept;
    const size_t grammar_bytes = at->table->grammar().automaton.bytes();
    if (is_idle) bytes += at->table->bytes() + grammar_bytes;
    const bool is_kept = !is_scarce && num_kept <= kTablesMax && bytes <= idle_bytes_max;
    if (!is_idle || is_kept) {
      if (is_idle) idle_grammar_bytes += grammar_bytes;
      ++at;
      continue;
    }
    std::shared_ptr<MaskTable> table = std::move(at->table);
    at = tables_.erase(at);
    const size_t table_bytes = table->bytes();
    Discard(std::move(table), table_bytes + grammar_bytes);
  }
  memory_->SetIdleBytes(idle_grammar_bytes);
}

// Divides the memory for masks among the tables in use. A table above its share drops its cache
// before its next answer, on the worker. Tables that get no question are trimmed by ForgetOne.
void MatcherPool::Share() {
  if (tables_.empty()) return;
  size_t num_in_use = 0;
  size_t bytes = 0;
  for (Held& held : tables_) {
    if (!IsLent(held)) held.bytes = held.table->bytes();
    bytes += held.bytes;
    if (held.table.use_count() > 1 || IsLent(held)) ++num_in_use;
  }
  const size_t bytes_max = memory_->masks_bytes_max();
  const size_t share = std::max(bytes_max / std::max<size_t>(num_in_use, 1), kKeptBytesMin);
  for (Held& held : tables_) {
    if (!IsLent(held)) held.table->SetKeptBytes(share);
  }
  if (bytes > bytes_max) ForgetOne();
}

// Clears the least recently used table. Only one per turn, because restoring the states of its
// texts takes time.
void MatcherPool::ForgetOne() {
  for (auto held = tables_.rbegin(); held != tables_.rend(); ++held) {
    if (IsLent(*held) || held->bytes <= 2 * held->bytes_left + kKeptBytesMin) continue;
    const size_t before = held->bytes;
    try {
      std::shared_ptr<const MaskTable::Forgotten> forgotten = held->table->Forget();
      held->bytes = held->bytes_left = held->table->bytes();
      Discard(std::move(forgotten), before - std::min(before, held->bytes));
    } catch (const std::bad_alloc&) {
      held->bytes_left = held->bytes;  // it keeps its cache
    }
    return;
  }
}

// Frees the object on the worker, because freeing is slow too. If no memory is left, frees it here;
// never throws.
void MatcherPool::Discard(std::shared_ptr<const void> what, size_t bytes) noexcept {
  try {
    if (worker_ != nullptr) worker_->Discard(std::move(what), bytes);
  } catch (const std::bad_alloc&) {
    what.reset();
  }
}

void MatcherPool::StopWorker() { worker_.reset(); }

}  // namespace kvgate::grammar::mask
