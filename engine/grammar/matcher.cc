#include "engine/grammar/matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <kvgate/check.h>

#include "engine/grammar/mask_worker.h"

namespace kvgate::grammar {

Matcher::Matcher(std::shared_ptr<MaskTable> table) : table_(std::move(table)) {}

Matcher::~Matcher() { Leave(); }

void Matcher::Leave() {
  if (std::exchange(begun_, false)) table_->Remove(*this);
}

// --- at once ----------------------------------------------------------------------------------

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

// --- later ------------------------------------------------------------------------------------

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

// False: it stopped.
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

MatcherPool::MatcherPool(const Options& options) : options_(options) {
  if (options_.turn_work_max > 0) worker_ = std::make_unique<MaskWorker>();
}

MatcherPool::~MatcherPool() = default;

std::unique_ptr<Matcher> MatcherPool::Start(const std::shared_ptr<const CompiledGrammar>& grammar) {
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const auto& table) {
    return table->shared_grammar() == grammar;
  });
  if (known != tables_.end()) {
    tables_.splice(tables_.begin(), tables_, known);
  } else {
    tables_.push_front(std::make_shared<MaskTable>(grammar, MaskTable::Options()));
    Trim();
  }
  return std::make_unique<Matcher>(tables_.front());
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
  ++loans_[&table].num_answers;
  worker_->Post({.matcher = matcher, .done = std::move(done)});
  return false;
}

void MatcherPool::TakeBack(const std::shared_ptr<Matcher>& matcher) {
  const auto loan = loans_.find(&matcher->table());
  KVGATE_CHECK(loan != loans_.end(), "a table comes back that was not lent");
  if (--loan->second.num_answers > 0) return;
  for (const std::shared_ptr<Matcher>& released : loan->second.released) released->Leave();
  loans_.erase(loan);
  Trim();
}

void MatcherPool::Release(std::shared_ptr<Matcher> matcher) {
  const auto loan = loans_.find(&matcher->table());
  if (loan != loans_.end()) {
    matcher->Abandon();
    loan->second.released.push_back(std::move(matcher));  // its table is another's for now
    return;
  }
  matcher->Leave();
  matcher.reset();
  Trim();
}

void MatcherPool::Trim() {
  size_t num_kept = 0;
  size_t bytes = 0;
  for (auto at = tables_.begin(); at != tables_.end();) {
    const bool is_idle = at->use_count() == 1 && !loans_.contains(at->get());
    ++num_kept;
    if (is_idle) bytes += (*at)->bytes() + (*at)->grammar().automaton.bytes();
    if (!is_idle || (num_kept <= kTablesMax && bytes <= kIdleBytesMax)) {
      ++at;
      continue;
    }
    Discard(std::move(*at));
    at = tables_.erase(at);
  }
}

// To take it apart takes time, too.
void MatcherPool::Discard(std::shared_ptr<MaskTable> table) {
  if (worker_ != nullptr) worker_->Discard(std::move(table));
}

void MatcherPool::StopWorker() { worker_.reset(); }

}  // namespace kvgate::grammar
