#include "gateway/session/retrieval/terms.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "base/utf8.h"

namespace kvgate::session::retrieval {
namespace {

// Sorted. Words that say nothing of what a passage is about.
constexpr std::array<std::string_view, 150> kCommonWords = {
    "a",      "about",   "above", "after", "again", "all",     "also",  "am",    "an",
    "and",    "any",     "are",   "as",    "at",    "back",    "be",    "been",  "before",
    "being",  "below",   "but",   "by",    "can",   "come",    "could", "d",     "did",
    "do",     "does",    "doing", "don",   "down",  "each",    "for",   "from",  "get",
    "give",   "given",   "go",    "goes",  "got",   "had",     "has",   "have",  "having",
    "he",     "hello",   "her",   "here",  "hers",  "hi",      "him",   "his",   "how",
    "i",      "if",      "in",    "into",  "is",    "it",      "its",   "just",  "know",
    "let",    "like",    "ll",    "m",     "make",  "may",     "me",    "might", "more",
    "most",   "my",      "no",    "not",   "now",   "of",      "off",   "ok",    "okay",
    "on",     "once",    "one",   "only",  "or",    "other",   "our",   "out",   "over",
    "own",    "please",  "re",    "s",     "said",  "same",    "say",   "shall", "she",
    "should", "so",      "some",  "such",  "t",     "tell",    "than",  "thank", "thanks",
    "that",   "the",     "their", "them",  "then",  "there",   "these", "they",  "this",
    "those",  "through", "to",    "too",   "under", "until",   "up",    "us",    "use",
    "ve",     "very",    "was",   "we",    "well",  "were",    "what",  "when",  "where",
    "which",  "while",   "who",   "whom",  "whose", "why",     "will",  "with",  "would",
    "yes",    "yet",     "you",   "your",  "yours", "yourself"};
static_assert(std::is_sorted(kCommonWords.begin(), kCommonWords.end()));

constexpr size_t kWordBytesMax = 64;  // of longer ones the beginning counts

bool IsBetween(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

// Scripts that write words without spaces between them.
bool IsUnspaced(char32_t c) {
  return IsBetween(c, 0x0E00, 0x0E7F) || IsBetween(c, 0x3040, 0x30FF) ||
         IsBetween(c, 0x3400, 0x9FFF) || IsBetween(c, 0xAC00, 0xD7AF) ||
         IsBetween(c, 0xF900, 0xFAFF) || IsBetween(c, 0x20000, 0x3FFFF);
}

bool IsWord(char32_t c) {
  if (c < 0x80) {
    return IsBetween(c, '0', '9') || IsBetween(c, 'a', 'z') || IsBetween(c, 'A', 'Z');
  }
  // Signs, spaces and punctuation of the blocks that have them apart from letters.
  return !IsBetween(c, 0x80, 0xBF) && c != 0xD7 && c != 0xF7 && !IsBetween(c, 0x2000, 0x2BFF) &&
         !IsBetween(c, 0x2E00, 0x2E7F) && !IsBetween(c, 0x3000, 0x303F) &&
         !IsBetween(c, 0xFE10, 0xFE6F) && !IsBetween(c, 0xFF00, 0xFF0F) && c != 0xFFFD;
}

// Of the Latin, Greek and Cyrillic letters; others have no case here.
char32_t Lower(char32_t c) {
  if (IsBetween(c, 'A', 'Z')) return c + 0x20;
  if (c < 0xC0) return c;
  if (IsBetween(c, 0xC0, 0xDE) || IsBetween(c, 0x391, 0x3A9) || IsBetween(c, 0x410, 0x42F)) {
    return c + 0x20;
  }
  if (IsBetween(c, 0x400, 0x40F)) return c + 0x50;
  const bool is_even_upper = IsBetween(c, 0x100, 0x137) || IsBetween(c, 0x14A, 0x177);
  const bool is_odd_upper = IsBetween(c, 0x139, 0x148) || IsBetween(c, 0x179, 0x17E);
  if ((is_even_upper && c % 2 == 0) || (is_odd_upper && c % 2 == 1)) return c + 1;
  return c;
}

bool IsUpper(char32_t c) { return Lower(c) != c; }

// "stopped" and "stop" are one word.
void Undouble(std::string& word) {
  const size_t size = word.size();
  const bool is_double = size > 3 && word[size - 1] == word[size - 2];
  constexpr std::string_view kStay = "lsz";
  if (is_double && kStay.find(word.back()) == std::string_view::npos) word.pop_back();
}

bool HasVowel(std::string_view text) {
  return text.find_first_of("aeiouy") != std::string_view::npos;
}

// Takes away plurals and the ends of verbs, as the first steps of Porter's algorithm do.
void Stem(std::string& word) {
  const auto ends = [&](std::string_view end) { return word.ends_with(end); };
  const auto drop = [&](size_t bytes) { word.resize(word.size() - bytes); };
  if (word.size() > 4 && ends("ies")) {
    drop(3);
    word += 'y';
  } else if (word.size() > 4 && (ends("sses") || ends("xes") || ends("ches") || ends("shes"))) {
    drop(2);
  } else if (word.size() > 3 && ends("s") && !ends("ss") && !ends("us") && !ends("is")) {
    drop(1);
  }
  const auto drops = [&](std::string_view end) {
    const std::string_view stem = std::string_view(word).substr(0, word.size() - end.size());
    if (!ends(end) || stem.size() < 3 || !HasVowel(stem)) return false;
    drop(end.size());
    Undouble(word);
    return true;
  };
  if (!drops("ing")) drops("ed");
  if (word.size() > 3 && ends("e")) drop(1);
}

class Collector {
 public:
  explicit Collector(std::vector<Term>& terms) : terms_(terms) {}

  void Add(char32_t c) {
    if (!IsWord(c)) {
      End();
    } else if (IsUnspaced(c)) {
      EndWord();
      AddUnspaced(c);
    } else {
      if (has_pair_ || before_ != 0) EndUnspaced();
      if (was_lower_ && IsUpper(c)) EndPart();
      was_lower_ = !IsUpper(c);
      AppendUtf8(Lower(c), part_);
    }
  }
  void End() {
    EndWord();
    EndUnspaced();
  }

 private:
  // Two characters say what one does not; one that stands alone is a word.
  void AddUnspaced(char32_t c) {
    if (before_ != 0) {
      std::string pair;
      AppendUtf8(before_, pair);
      AppendUtf8(c, pair);
      Put(pair);
      has_pair_ = true;
    }
    before_ = c;
  }
  void EndUnspaced() {
    if (before_ != 0 && !has_pair_) {
      std::string one;
      AppendUtf8(before_, one);
      Put(one);
    }
    before_ = 0;
    has_pair_ = false;
  }
  void EndPart() {
    whole_ += part_;
    num_parts_ += part_.empty() ? 0 : 1;
    PutWord(part_);
    part_.clear();
  }
  void EndWord() {
    if (part_.empty() && whole_.empty()) return;
    EndPart();
    if (num_parts_ > 1) PutWord(whole_);
    whole_.clear();
    num_parts_ = 0;
    was_lower_ = false;
  }
  void PutWord(std::string_view word) {
    if (word.empty() || std::binary_search(kCommonWords.begin(), kCommonWords.end(), word)) return;
    std::string stem(word.substr(0, Utf8CutBefore(word, std::min(word.size(), kWordBytesMax))));
    Stem(stem);
    Put(stem);
  }
  void Put(std::string_view word) { terms_.push_back(std::hash<std::string_view>()(word)); }

  std::vector<Term>& terms_;
  std::string part_;   // of a name, since its last capital
  std::string whole_;  // the parts before
  size_t num_parts_ = 0;
  bool was_lower_ = false;
  char32_t before_ = 0;
  bool has_pair_ = false;
};

}  // namespace

std::vector<Term> TermsOf(std::string_view text) {
  std::vector<Term> terms;
  Collector collector(terms);
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    collector.Add(step.status == Utf8Status::kValid ? step.code_point : U' ');
    text.remove_prefix(step.length);
  }
  collector.End();
  return terms;
}

}  // namespace kvgate::session::retrieval
