// PassageIndex: the passages of one branch of turns, found by the words that they have in common
// with a question (BM25, Robertson and Zaragoza 2009), and by what they mean where vectors of them
// are known. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/session/log/logged_turn.h"
#include "gateway/session/retrieval/meaning.h"
#include "gateway/session/retrieval/passages.h"
#include "gateway/session/retrieval/ranking.h"
#include "gateway/session/retrieval/terms.h"

namespace kvgate::session::retrieval {

// A passage in its place.
struct Found {
  std::string id = {};  // names it in the log: TURN#NUMBER
  uint64_t turn = 0;    // the depth of its turn, from 1 on
  std::string text = {};
};

// The passages of a turn of which vectors are made: the first kTurnVectorsMax.
struct TurnTexts {
  std::string turn = {};  // its id
  std::vector<std::string> texts = {};
};
inline constexpr size_t kTurnVectorsMax = 512;

class PassageIndex {
 public:
  // Of more than this many passages the first ones are kept, so that memory is bounded.
  static constexpr size_t kPassagesMax = 65'536;
  // Of passages whose vectors together are larger, those that came first are found by meaning.
  static constexpr size_t kMeaningBytesMax = size_t{16} << 20;

  // Adds a turn behind those that are there.
  void Add(const log::LoggedTurn& turn);
  // The id of the newest turn; empty: there is none.
  const std::string& head() const { return head_; }

  struct SearchArgs {
    std::string_view question = {};
    const Meaning* meaning = nullptr;  // of the question; null: words alone are looked for
    // Only what was said before the `end_message`-th message of the turn `end_turn`; empty: all.
    std::string_view end_turn = {};
    uint64_t end_message = 0;
    const std::set<std::string, std::less<>>& exclude;  // ids of passages that are not wanted again
    size_t bytes_max = 0;                               // of all texts together
  };
  // The passages that together have most of what the question asks about, and those that are much
  // more like it than the others are, in the order in which they were said; none if there are none
  // such. With a user's passage comes the beginning
  // of its answer, where there is room. Takes time linear in the passages that share a word with
  // the question, and in those with vectors.
  std::vector<Found> Search(const SearchArgs& args) const;

  // The vectors of a turn's passages, in the order of TextsOf. Ignored for a turn that is not here,
  // or another number of passages.
  void SetMeanings(std::string_view turn, std::vector<Meaning> meanings);
  // Turns whose vectors were not set, or have other dimensions than these (0: any), the oldest
  // first; none where their vectors would have no room.
  std::vector<std::string> TurnsWithout(size_t dimensions) const;
  // The texts of a turn's passages that vectors are made of; empty for a turn that is not here.
  std::vector<std::string> TextsOf(std::string_view turn) const;
  size_t num_meanings() const { return num_meanings_; }
  // Vectors of further turns can be set.
  bool has_room() const {
    return meaning_bytes_ < kMeaningBytesMax && passages_.size() < kPassagesMax;
  }

  size_t num_passages() const { return passages_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint32_t turn = 0;    // an index
    uint32_t number = 0;  // within the turn
    uint32_t num_terms = 0;
    Passage passage = {};
    Meaning meaning = {};
  };
  struct Posting {
    uint32_t entry = 0;
    uint32_t count = 0;
  };
  struct Turn {
    std::string id = {};
    uint64_t depth = 0;
    uint32_t first_entry = 0;
    uint32_t num_entries = 0;
    bool has_meanings = false;
    size_t num_dimensions = 0;  // of its vectors; 0: none of its passages has one
  };
  // A passage that shares words with the question: which of those, and what each counts.
  struct Candidate {
    uint32_t entry = 0;
    double score = 0;
    std::vector<std::pair<size_t, double>> words = {};
  };
  using Excluded = std::set<std::pair<uint32_t, uint32_t>>;  // turns and numbers in them
  Excluded ExcludedBy(const SearchArgs& args) const;
  bool MayBeFound(const Entry& entry, const Excluded& excluded, const SearchArgs& args) const;
  struct Question {
    std::vector<double> weights;  // of its words that passages have; with the others, about 1
    std::vector<Candidate> candidates;
  };
  Question Match(const SearchArgs& args, const Excluded& excluded) const;
  // The indices of the chosen entries, the best first.
  std::vector<uint32_t> Choose(Question question, size_t bytes_max) const;
  std::vector<uint32_t> AlikeTo(const SearchArgs& args, const Excluded& excluded) const;
  // As many of them, in their order, as have room.
  std::vector<uint32_t> Fitting(std::vector<uint32_t> entries, size_t bytes_max) const;
  const Turn* FindTurn(std::string_view id) const;
  // The entries of a turn that vectors are made of.
  std::span<const Entry> MeaningfulOf(const Turn& turn) const;
  Found ToFound(const Entry& entry) const;

  std::vector<Turn> turns_in_order_;
  std::unordered_map<std::string, uint32_t> turns_;  // their indices
  std::string head_;
  std::vector<Entry> passages_;
  std::unordered_map<Term, std::vector<Posting>> postings_;
  uint64_t num_terms_ = 0;
  size_t num_meanings_ = 0;
  size_t meaning_bytes_ = 0;  // of all vectors, counted in bytes_ too
  size_t bytes_ = 0;
};

}  // namespace kvgate::session::retrieval
