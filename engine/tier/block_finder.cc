#include "engine/tier/block_finder.h"

#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace kvgate::tier {
namespace {

// An answer of before is no measure of the next one.
constexpr std::chrono::seconds kForget{10};
// Delay before the next attempt to deliver an answer when memory has run out.
constexpr std::chrono::milliseconds kDeliveryRetry{5};

}  // namespace

BlockFinder::BlockFinder(Options options, store::kv::BlockStore& store)
    : options_(std::move(options)), store_(store) {
  if (!options_.is_driven) thread_ = std::thread([this] { Run(); });
}

BlockFinder::~BlockFinder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  if (thread_.joinable()) thread_.join();
  while (const std::optional<Question> left = Take()) Perform(*left);
}

uint64_t BlockFinder::Ask(std::vector<Item> items, std::chrono::microseconds limit) {
  KVGATE_CHECK(!items.empty(), "a question about no block");
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    const bool is_behind = is_asking_ || !questions_.empty();
    questions_.push_back(
        {.ticket = last_ticket_ + 1, .items = std::move(items), .limit = limit, .deadline = {}});
    if (is_behind) questions_.back().deadline = SteadyClock::now() + limit;
    ticket = ++last_ticket_;
  }
  ready_.notify_one();
  return ticket;
}

double BlockFinder::answer_seconds() const {
  const std::lock_guard lock(mutex_);
  return SteadyClock::now() - answered_at_ < kForget ? answer_seconds_ : 0;
}

std::optional<BlockFinder::Question> BlockFinder::Take() {
  const std::lock_guard lock(mutex_);
  if (questions_.empty()) return std::nullopt;
  Question question = std::move(questions_.front());
  questions_.pop_front();
  is_asking_ = true;
  return question;
}

// Returns false if the store did not answer, or there was no memory to ask it.
bool BlockFinder::LookUp(const Question& question) {
  try {
    std::vector<store::kv::KvName> names;
    names.reserve(question.items.size());
    for (const Item& item : question.items) {
      names.push_back({.key = {.fingerprint = options_.fingerprint,
                               .hash = kv::GroupHash(item.key.hash, item.group)},
                       .digest = item.key.digest,
                       .group = item.group});
    }
    const SteadyClock::time_point deadline =
        question.deadline.value_or(SteadyClock::now() + question.limit);
    return store_.LookUp(names, deadline).has_value();
  } catch (const std::exception& failure) {
    KVGATE_LOG(kDebug, "tier", "KV blocks not looked up: {}", failure.what());
    return false;
  }
}

void BlockFinder::Perform(const Question& question) {
  const SteadyClock::time_point began = SteadyClock::now();
  const bool is_late = question.deadline && began >= *question.deadline;
  const bool is_answered = !is_late && LookUp(question);
  const SteadyClock::time_point now = SteadyClock::now();
  {
    const std::lock_guard lock(mutex_);
    is_asking_ = false;
    if (is_answered) NoteAnswer(std::chrono::duration<double>(now - began).count(), now);
  }
  Deliver(question.ticket);
}

void BlockFinder::NoteAnswer(double seconds, SteadyClock::time_point now) {
  answer_seconds_ = answer_seconds_ > 0 ? (3 * answer_seconds_ + seconds) / 4 : seconds;
  answered_at_ = now;
}

// Retries until delivered, because a sequence waits for it.
void BlockFinder::Deliver(uint64_t ticket) {
  while (true) {
    try {
      return options_.on_answer(ticket);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kDeliveryRetry);
    }
  }
}

void BlockFinder::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
      if (stopping_) return;  // what is left is ended by the destructor
    }
    if (const std::optional<Question> question = Take()) Perform(*question);
  }
}

}  // namespace kvgate::tier
