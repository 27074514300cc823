#include "gateway/prompt/diagnose/slot_savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::diagnose {

using templates::Place;

namespace {

constexpr size_t kModelBytesMax = 256;
constexpr size_t kLineBytesMax = 400;  // as of the lines that are learnt
// The line in the log names this many slots, each with so much of its line.
constexpr size_t kLoggedMax = 3;
constexpr size_t kLoggedBytesMax = 80;

struct Shown {
  std::string line;  // empty: it is not known any more
  std::string path;
};
Shown ShownOf(const std::weak_ptr<const history::Branch>& held, size_t segment, uint32_t line) {
  const auto branch = held.lock();
  if (!branch || segment >= branch->request.segments.size()) return {};
  const history::SentSegment& sent = branch->request.segments[segment];
  std::string text = LineWithoutValues(sent, line);
  text.resize(Utf8CutBefore(text, std::min(text.size(), kLineBytesMax)));
  return {.line = std::move(text), .path = parse::PathOf(sent.place)};
}

void Add(SlotSavings::Sum& sum, int64_t requests, int64_t tokens, int64_t nanodollars) {
  sum.requests += requests;
  sum.tokens += tokens;
  sum.nanodollars += nanodollars;
}

std::string Dollars(int64_t nanodollars) {
  return fmt::format("${:.4f}", static_cast<double>(nanodollars) / 1e9);
}

}  // namespace

SlotSavings::SlotSavings(Options options) : options_(std::move(options)) {}

SlotSavings::~SlotSavings() {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    line = TakeLineLocked();
  }
  Log(line);
}

SlotSavings::Slot& SlotSavings::FindOrAddLocked(const Request& request, const SlotLoss& loss) {
  const std::string_view model = request.model.substr(0, kModelBytesMax);
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.mask == loss.mask && slot.place == loss.place && slot.tenant == request.tenant &&
           slot.model == model;
  });
  if (found != slots_.end()) {
    slots_.splice(slots_.begin(), slots_, found);
    return slots_.front();
  }
  if (slots_.size() >= options_.slots_max) slots_.pop_back();
  Slot& slot = slots_.emplace_front();
  slot.tenant = request.tenant;
  slot.model = model;
  slot.place = loss.place;
  slot.mask = loss.mask;
  return slot;
}

void SlotSavings::Add(const Request& request) {
  if (request.losses.empty()) return;
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    bool is_known = true;  // a user's lines are
    for (const SlotLoss& loss : request.losses) {
      const bool was_there = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return slot.mask == loss.mask && slot.place == loss.place && slot.tenant == request.tenant;
      });
      is_known = is_known && (loss.place != Place::kFirstUser || was_there);
      Slot& slot = FindOrAddLocked(request, loss);
      slot.branch = request.branch;
      slot.segment = loss.segment;
      slot.line = loss.line;
    }
    if (is_known) {
      unsaid_.requests += 1;
      all_.requests += 1;
      for (const SlotLoss& loss : request.losses) {
        Slot& slot = FindOrAddLocked(request, loss);
        for (Sum* sum : {&slot.all, &slot.unsaid}) {
          diagnose::Add(*sum, 1, loss.tokens, loss.nanodollars);
        }
        for (Sum* sum : {&all_, &unsaid_}) {
          diagnose::Add(*sum, 0, loss.tokens, loss.nanodollars);
        }
      }
    }
    if (SteadyClock::now() - said_at_ >= options_.interval) line = TakeLineLocked();
  }
  Log(line);
}

std::string SlotSavings::TakeLineLocked() {
  if (unsaid_.tokens == 0) return "";
  std::vector<const Slot*> slots;
  for (const Slot& slot : slots_) {
    if (slot.unsaid.tokens > 0) slots.push_back(&slot);
  }
  std::stable_sort(slots.begin(), slots.end(), [](const Slot* a, const Slot* b) {
    return a->unsaid.tokens > b->unsaid.tokens;
  });
  const auto minutes =
      std::chrono::duration_cast<std::chrono::minutes>(SteadyClock::now() - said_at_).count();
  std::string line = fmt::format(
      "in the last {} min mode stabilize would have saved {} tokens ({}) in {} requests", minutes,
      unsaid_.tokens, Dollars(unsaid_.nanodollars), unsaid_.requests);
  for (size_t i = 0; i < slots.size() && i < kLoggedMax; ++i) {
    const Slot& slot = *slots[i];
    Shown shown = ShownOf(slot.branch, slot.segment, slot.line);
    shown.line.resize(Utf8CutBefore(shown.line, std::min(shown.line.size(), kLoggedBytesMax)));
    line += fmt::format("{} {} tokens by {} '{}'", i == 0 ? ":" : ",", slot.unsaid.tokens,
                        PlaceName(slot.place), shown.line);
  }
  if (slots.size() > kLoggedMax) line += fmt::format(", {} more", slots.size() - kLoggedMax);
  for (Slot& slot : slots_) slot.unsaid = {};
  unsaid_ = {};
  said_at_ = SteadyClock::now();
  return line;
}

void SlotSavings::Log(const std::string& line) const {
  if (line.empty()) return;
  if (options_.log) {
    options_.log(line);
  } else {
    KVGATE_LOG(kInfo, "prompts", "{}", line);
  }
}

SlotSavings::Savings SlotSavings::List(const std::optional<std::string>& tenant) const {
  Savings savings{.since_us = since_us_, .sum = {}, .slots = {}};
  std::vector<Slot> slots;
  {
    const std::lock_guard lock(mutex_);
    std::copy_if(slots_.begin(), slots_.end(), std::back_inserter(slots), [&](const Slot& slot) {
      return slot.all.tokens > 0 && (!tenant || slot.tenant == *tenant);
    });
    savings.sum = all_;
  }
  if (tenant) savings.sum = {};
  for (Slot& slot : slots) {
    if (tenant) {
      diagnose::Add(savings.sum, slot.all.requests, slot.all.tokens, slot.all.nanodollars);
    }
    Shown shown = ShownOf(slot.branch, slot.segment, slot.line);
    savings.slots.push_back({.tenant = std::move(slot.tenant),
                             .model = std::move(slot.model),
                             .place = slot.place,
                             .line = std::move(shown.line),
                             .path = std::move(shown.path),
                             .sum = slot.all});
  }
  std::stable_sort(savings.slots.begin(), savings.slots.end(),
                   [](const Saving& a, const Saving& b) { return a.sum.tokens > b.sum.tokens; });
  return savings;
}

}  // namespace kvgate::prompt::diagnose
