#include "gateway/session/retrieval/passage_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace kvgate::session::retrieval {
namespace {

constexpr double kTermSaturation = 1.2;   // k1
constexpr double kLengthNormal = 0.75;    // b
constexpr size_t kCandidatesMax = 64;     // that are looked at together, the best ones
constexpr size_t kQuestionTermsMax = 64;  // of a long one, the rarest
// A word that stands in more of the passages than this says little about one of them. Few passages
// say nothing about words.
constexpr double kCommonShare = 0.25;
constexpr size_t kPassagesOfCommon = 24;
// Of the weight of the question's words: what the best passage has to have, and each further one
// has to add.
constexpr double kShareMin = 0.25;
constexpr double kShareAdded = 0.12;
// What a word still counts once a chosen passage has it.
constexpr double kRepeatedWord = 0.35;
// Of the weight of a word that stands nowhere: a question may say in other words what is asked for.
constexpr double kUnknownWord = 0.5;
constexpr size_t kOverheadBytes = 64;  // of an entry besides its text, and of a posting's list

}  // namespace

void PassageIndex::Add(const log::LoggedTurn& turn) {
  if (turns_.contains(turn.id)) return;
  const auto index = static_cast<uint32_t>(turns_in_order_.size());
  turns_in_order_.push_back(
      {.id = turn.id, .depth = turn.depth, .first_entry = static_cast<uint32_t>(passages_.size())});
  turns_[turn.id] = index;
  head_ = turn.id;
  bytes_ += 2 * turn.id.size() + kOverheadBytes;
  uint32_t number = 0;
  for (Passage& passage : PassagesOf(turn)) {
    if (passages_.size() >= kPassagesMax) return;
    const auto at = static_cast<uint32_t>(passages_.size());
    const std::vector<Term> terms = TermsOf(passage.text);
    for (const Term term : terms) {
      std::vector<Posting>& list = postings_[term];
      if (list.empty()) bytes_ += kOverheadBytes;
      if (list.empty() || list.back().entry != at) {
        list.push_back({.entry = at});
        bytes_ += sizeof(Posting);
      }
      ++list.back().count;
    }
    num_terms_ += terms.size();
    bytes_ += passage.text.size() + sizeof(Entry);
    passages_.push_back({.turn = index,
                         .number = number++,
                         .num_terms = static_cast<uint32_t>(terms.size()),
                         .passage = std::move(passage)});
    ++turns_in_order_.back().num_entries;
  }
}

const PassageIndex::Turn* PassageIndex::FindTurn(std::string_view id) const {
  const auto found = turns_.find(std::string(id));
  return found == turns_.end() ? nullptr : &turns_in_order_[found->second];
}

std::span<const PassageIndex::Entry> PassageIndex::MeaningfulOf(const Turn& turn) const {
  return std::span(passages_).subspan(turn.first_entry,
                                      std::min<size_t>(turn.num_entries, kTurnVectorsMax));
}

void PassageIndex::SetMeanings(std::string_view turn, std::vector<Meaning> meanings) {
  const auto found = turns_.find(std::string(turn));
  if (found == turns_.end()) return;
  Turn& place = turns_in_order_[found->second];
  if (meanings.size() != MeaningfulOf(place).size()) return;
  if (!place.has_meanings && meaning_bytes_ >= kMeaningBytesMax) return;
  place.has_meanings = true;
  place.num_dimensions = 0;
  for (size_t i = 0; i < meanings.size(); ++i) {
    Meaning& meaning = passages_[place.first_entry + i].meaning;
    const size_t before = meaning.dimensions();
    num_meanings_ -= meaning.is_known() ? 1 : 0;
    meaning = std::move(meanings[i]);
    num_meanings_ += meaning.is_known() ? 1 : 0;
    meaning_bytes_ = meaning_bytes_ - before + meaning.dimensions();
    bytes_ = bytes_ - before + meaning.dimensions();
    if (meaning.is_known()) place.num_dimensions = meaning.dimensions();
  }
}

std::vector<std::string> PassageIndex::TurnsWithout(size_t dimensions) const {
  std::vector<std::string> turns;
  for (const Turn& turn : turns_in_order_) {
    const bool is_of_others =
        dimensions != 0 && turn.num_dimensions != 0 && turn.num_dimensions != dimensions;
    const bool is_without = !turn.has_meanings && meaning_bytes_ < kMeaningBytesMax;
    if (turn.num_entries > 0 && (is_without || is_of_others)) turns.push_back(turn.id);
  }
  return turns;
}

std::vector<std::string> PassageIndex::TextsOf(std::string_view turn) const {
  std::vector<std::string> texts;
  const Turn* const place = FindTurn(turn);
  if (place == nullptr) return texts;
  for (const Entry& entry : MeaningfulOf(*place)) texts.push_back(entry.passage.text);
  return texts;
}

PassageIndex::Excluded PassageIndex::ExcludedBy(const SearchArgs& args) const {
  Excluded excluded;
  for (const std::string& id : args.exclude) {
    const size_t mark = id.rfind('#');
    if (mark == std::string::npos) continue;
    const auto turn = turns_.find(id.substr(0, mark));
    uint32_t number = 0;
    const char* const end = id.data() + id.size();
    const auto read = std::from_chars(id.data() + mark + 1, end, number);
    if (turn == turns_.end() || read.ec != std::errc() || read.ptr != end) continue;
    excluded.emplace(turn->second, number);
  }
  return excluded;
}

bool PassageIndex::MayBeFound(const Entry& entry, const Excluded& excluded,
                              const SearchArgs& args) const {
  if (excluded.contains({entry.turn, entry.number})) return false;
  if (args.end_turn.empty()) return true;
  const auto end = turns_.find(std::string(args.end_turn));
  if (end == turns_.end()) return false;
  if (entry.turn != end->second) return entry.turn < end->second;
  return entry.passage.message < args.end_message;
}

PassageIndex::Question PassageIndex::Match(const SearchArgs& args, const Excluded& excluded) const {
  std::vector<Term> terms = TermsOf(args.question);
  std::sort(terms.begin(), terms.end());
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  struct Word {
    double idf = 0;
    const std::vector<Posting>* list = nullptr;
  };
  std::vector<Word> words;
  const auto num = static_cast<double>(passages_.size());
  const auto idf_of = [num](double with) {
    return std::log(1 + (num - with + 0.5) / (with + 0.5));
  };
  double sum = 0;
  for (const Term term : terms) {
    const auto found = postings_.find(term);
    if (found == postings_.end()) {
      sum += kUnknownWord * idf_of(0);
      continue;
    }
    const auto with = static_cast<double>(found->second.size());
    if (passages_.size() >= kPassagesOfCommon && with > kCommonShare * num) continue;
    words.push_back({.idf = idf_of(with), .list = &found->second});
    sum += words.back().idf;
  }
  std::sort(words.begin(), words.end(), [](const Word& a, const Word& b) { return a.idf > b.idf; });
  if (words.size() > kQuestionTermsMax) words.resize(kQuestionTermsMax);
  Question question;
  std::unordered_map<uint32_t, Candidate> candidates;
  const double average = static_cast<double>(num_terms_) / std::max(1.0, num);
  for (size_t i = 0; i < words.size(); ++i) {
    question.weights.push_back(words[i].idf / sum);
    for (const Posting& posting : *words[i].list) {
      const Entry& entry = passages_[posting.entry];
      if (!MayBeFound(entry, excluded, args)) continue;
      const double length = static_cast<double>(entry.num_terms) / std::max(1.0, average);
      const auto count = static_cast<double>(posting.count);
      const double share = count * (kTermSaturation + 1) /
                           (count + kTermSaturation * (1 - kLengthNormal + kLengthNormal * length));
      Candidate& candidate = candidates[posting.entry];
      candidate.entry = posting.entry;
      candidate.score += words[i].idf * share;
      candidate.words.emplace_back(i, share);
    }
  }
  for (auto& [entry, candidate] : candidates) question.candidates.push_back(std::move(candidate));
  // Of equals the newer one, which may correct the older.
  std::sort(question.candidates.begin(), question.candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.score != b.score ? a.score > b.score : a.entry > b.entry;
            });
  if (question.candidates.size() > kCandidatesMax) question.candidates.resize(kCandidatesMax);
  return question;
}

// Each next passage is the one that adds most of what the chosen ones do not have yet.
std::vector<uint32_t> PassageIndex::Choose(Question question, size_t bytes_max) const {
  std::vector<uint32_t> chosen;
  std::vector<double>& weights = question.weights;
  size_t bytes = 0;
  while (true) {
    const Candidate* best = nullptr;
    double most = 0;
    for (const Candidate& candidate : question.candidates) {
      const bool is_chosen =
          std::find(chosen.begin(), chosen.end(), candidate.entry) != chosen.end();
      if (is_chosen || bytes + passages_[candidate.entry].passage.text.size() > bytes_max) continue;
      double gain = 0;
      for (const auto& [word, share] : candidate.words) gain += weights[word] * share;
      if (gain > most) {
        most = gain;
        best = &candidate;
      }
    }
    if (best == nullptr || most < (chosen.empty() ? kShareMin : kShareAdded)) return chosen;
    chosen.push_back(best->entry);
    bytes += passages_[best->entry].passage.text.size();
    for (const auto& [word, share] : best->words) weights[word] *= kRepeatedWord;
  }
}

Found PassageIndex::ToFound(const Entry& entry) const {
  const Turn& turn = turns_in_order_[entry.turn];
  return {.id = fmt::format("{}#{}", turn.id, entry.number),
          .turn = turn.depth,
          .text = entry.passage.text};
}

std::vector<uint32_t> PassageIndex::AlikeTo(const SearchArgs& args,
                                            const Excluded& excluded) const {
  // Passages that may not be found, such as those of the newest turns, tell what is usual here too.
  std::vector<Likeness> all;
  for (size_t i = 0; i < passages_.size(); ++i) {
    const Meaning& meaning = passages_[i].meaning;
    if (!meaning.is_known() || meaning.dimensions() != args.meaning->dimensions()) continue;
    all.push_back({.entry = static_cast<uint32_t>(i), .cosine = meaning.CosineWith(*args.meaning)});
  }
  std::vector<uint32_t> alike = StandingOut(all);
  std::erase_if(alike,
                [&](uint32_t entry) { return !MayBeFound(passages_[entry], excluded, args); });
  if (alike.size() > kCandidatesMax) alike.resize(kCandidatesMax);
  return alike;
}

std::vector<uint32_t> PassageIndex::Fitting(std::vector<uint32_t> entries, size_t bytes_max) const {
  size_t bytes = 0;
  std::erase_if(entries, [&](uint32_t entry) {
    const size_t size = passages_[entry].passage.text.size();
    const bool fits = bytes + size <= bytes_max;
    bytes += fits ? size : 0;
    return !fits;
  });
  return entries;
}

std::vector<Found> PassageIndex::Search(const SearchArgs& args) const {
  const Excluded excluded = ExcludedBy(args);
  std::vector<uint32_t> chosen = Choose(Match(args, excluded), args.bytes_max);
  if (args.meaning != nullptr && args.meaning->is_known()) {
    chosen = Fitting(Fused(chosen, AlikeTo(args, excluded)), args.bytes_max);
  }
  size_t bytes = 0;
  for (const uint32_t entry : chosen) bytes += passages_[entry].passage.text.size();
  // "Which port?" is found, "8443." is what was asked for.
  const size_t num_chosen = chosen.size();
  for (size_t i = 0; i < num_chosen; ++i) {
    const uint32_t next = chosen[i] + 1;
    if (!passages_[chosen[i]].passage.is_user || next >= passages_.size()) continue;
    const Entry& answer = passages_[next];
    const bool is_there = std::find(chosen.begin(), chosen.end(), next) != chosen.end();
    const bool is_answer = answer.turn == passages_[chosen[i]].turn && !answer.passage.is_user;
    const size_t size = answer.passage.text.size();
    if (is_there || !is_answer || bytes + size > args.bytes_max) continue;
    if (!MayBeFound(answer, excluded, args)) continue;
    chosen.push_back(next);
    bytes += size;
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<Found> found;
  for (const uint32_t entry : chosen) found.push_back(ToFound(passages_[entry]));
  return found;
}

}  // namespace kvgate::session::retrieval
