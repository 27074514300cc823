// Pieces are made in order of use: common letter pairs, common words, then words of random-looking
// syllables until the vocabulary is full. A word is first merged with the existing pieces; then its
// first two remaining parts become a new piece, until the word is a single piece. A new piece
// always merges later than all older ones, so every piece stays reachable.
#include "engine/model/synthetic_vocabulary.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <unordered_map>

#include "base/utf8.h"

namespace kvgate::model {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kByte = 6;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

constexpr std::string_view kPairs =
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve "
    "co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur la el ta ec us ut pr ca tr un ac ni "
    "no il ns so rs em ge wi po lo pe mo di ho";

constexpr std::string_view kWords =
    "the of and to in a is that for it was on with as he be at by I this had not are but from or "
    "have an they which one you were her all she there would their we him been has when who will "
    "more no if out so said what up its about into than them can only other new some could time "
    "these two may then do first any my now such like our over man me even most made after also "
    "did many before must through back years where much your way well down should because each "
    "just those people how too little state good very make world still own see men work long get "
    "here between both life being under never day same another know while last might us great "
    "old year off come since against go came right used take three system user assistant tool "
    "message text answer question please write read code file function name value type number "
    "list data model token cache prompt result error string return true false example help "
    "think small large once upon found give find place part house word light night water story";

constexpr std::string_view kOnsets =
    "b c d f g h j k l m n p r s t v w z bl br ch cl cr dr fl fr gl gr pl pr sh sl sp st th tr";
constexpr std::string_view kNuclei = "a e i o u ai ea ee ou oa";
constexpr std::string_view kCodas = "- n r s t l m d nd st nt rd";  // "-" means no coda

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

struct PieceRules {
  std::string_view space;  // spelling of a space
  // SentencePiece merges any two neighbours that spell a piece; byte-level BPE merges only the two
  // parts that its list of merges names.
  bool any_split = false;
};

class PieceMaker {
 public:
  PieceMaker(SyntheticVocabulary& vocabulary, PieceRules rules, size_t num_tokens_max)
      : vocabulary_(vocabulary), rules_(rules), num_tokens_max_(num_tokens_max) {}

  bool full() const { return vocabulary_.tokens.size() >= num_tokens_max_; }

  void AddCharacter(const std::string& text, bool sampled) { Append(text, 0, sampled); }

  // Adds `word` and the pieces that it is merged from. Stops when the vocabulary is full.
  void AddWord(std::string_view word) {
    while (!full()) {
      const std::vector<std::string> parts = Merge(word);
      if (parts.size() < 2) return;
      if (!rules_.any_split) vocabulary_.merges.push_back(parts[0] + " " + parts[1]);
      Append(parts[0] + parts[1], parts[0].size(), true);
    }
  }

 private:
  struct Piece {
    size_t rank;
    size_t split;  // bytes of the left part that it is merged from
  };

  void Append(const std::string& text, size_t split, bool sampled) {
    pieces_.emplace(text, Piece{.rank = vocabulary_.tokens.size(), .split = split});
    vocabulary_.tokens.push_back(text);
    vocabulary_.types.push_back(kNormal);
    vocabulary_.scores.push_back(-static_cast<float>(vocabulary_.tokens.size()));
    vocabulary_.sampled.push_back(sampled);
  }

  // Splits `word` as the tokenizer will: the earliest piece merges first, the leftmost among
  // equals.
  std::vector<std::string> Merge(std::string_view word) const {
    std::vector<std::string> parts;
    if (word.starts_with(rules_.space)) {
      parts.emplace_back(rules_.space);
      word.remove_prefix(rules_.space.size());
    }
    for (const char c : word) parts.emplace_back(1, c);
    while (true) {
      size_t best = parts.size();
      size_t best_rank = std::numeric_limits<size_t>::max();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = pieces_.find(parts[i] + parts[i + 1]);
        if (found == pieces_.end() || found->second.rank >= best_rank) continue;
        if (!rules_.any_split && found->second.split != parts[i].size()) continue;
        best = i;
        best_rank = found->second.rank;
      }
      if (best == parts.size()) return parts;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

  SyntheticVocabulary& vocabulary_;
  PieceRules rules_;
  size_t num_tokens_max_;
  std::unordered_map<std::string, Piece> pieces_;
};

// Returns a word of up to two syllables for `index`. It steps by a prime that shares no factor with
// the number of syllables, so that neighbours differ in every place.
std::string Pseudoword(uint64_t index, const std::vector<std::string>& syllables) {
  constexpr uint64_t kStep = 2654435761;
  const uint64_t count = syllables.size();
  std::string word = syllables[index * kStep % count];
  const uint64_t rest = index / count;
  if (rest > 0) word += syllables[(rest * kStep + index) % count];
  return word;
}

std::vector<std::string> MakeSyllables() {
  std::vector<std::string> syllables;
  for (const std::string_view onset : SplitWords(kOnsets)) {
    for (const std::string_view nucleus : SplitWords(kNuclei)) {
      for (const std::string_view coda : SplitWords(kCodas)) {
        syllables.push_back(fmt::format("{}{}{}", onset, nucleus, coda == "-" ? "" : coda));
      }
    }
  }
  return syllables;
}

void AddPieces(PieceMaker& maker, std::string_view space) {
  for (const std::string_view pair : SplitWords(kPairs)) maker.AddWord(pair);
  for (const std::string_view word : SplitWords(kWords))
    maker.AddWord(fmt::format("{}{}", space, word));
  const std::vector<std::string> syllables = MakeSyllables();
  for (uint64_t index = 0; !maker.full(); ++index) {
    const std::string word = Pseudoword(index, syllables);
    maker.AddWord(fmt::format("{}{}", space, word));
    maker.AddWord(word);
  }
}

Error TooSmall(int vocab_size, int minimum, std::string_view why) {
  return MakeError(
      ErrorCode::kInvalidArgument, "make_model",
      fmt::format("vocab_size is {}; at least {} are needed ({})", vocab_size, minimum, why),
      "vocab_size");
}

void AppendSpecial(SyntheticVocabulary& vocabulary, std::string_view text, int32_t type) {
  vocabulary.tokens.emplace_back(text);
  vocabulary.types.push_back(type);
  vocabulary.scores.push_back(0);
  vocabulary.sampled.push_back(false);
}

bool IsPrintable(int byte) { return byte >= 0x21 && byte <= 0x7E; }

// GPT-2's alphabet: printable Latin-1 characters stand for themselves, the others for U+0100 and
// on.
std::string SpellByte(int byte) {
  const auto is_own = [](int b) { return IsPrintable(b) || (b >= 0xA1 && b != 0xAD); };
  char32_t code_point = static_cast<char32_t>(byte);
  if (!is_own(byte)) {
    code_point = 0x100;
    for (int b = 0; b < byte; ++b) code_point += is_own(b) ? 0 : 1;
  }
  std::string spelling;
  AppendUtf8(code_point, spelling);
  return spelling;
}

}  // namespace

Result<SyntheticVocabulary> MakeLlamaVocabulary(int vocab_size) {
  constexpr int kMinimum = 3 + 2 + 94;
  constexpr int kNumBytes = 256;
  if (vocab_size < kMinimum) {
    return TooSmall(vocab_size, kMinimum, "3 special tokens, space, newline, printable ASCII");
  }
  SyntheticVocabulary vocabulary;
  AppendSpecial(vocabulary, "<unk>", kUnknown);
  AppendSpecial(vocabulary, "<s>", kControl);
  AppendSpecial(vocabulary, "</s>", kControl);
  if (vocab_size >= kMinimum + kNumBytes) {
    for (int byte = 0; byte < kNumBytes; ++byte) {
      AppendSpecial(vocabulary, fmt::format("<0x{:02X}>", byte), kByte);
    }
  }
  PieceMaker maker(vocabulary, {.space = kSpaceMark, .any_split = true},
                   static_cast<size_t>(vocab_size));
  maker.AddCharacter(std::string(kSpaceMark), true);
  maker.AddCharacter("\n", true);
  for (int c = 0x21; c <= 0x7E; ++c) maker.AddCharacter(std::string(1, static_cast<char>(c)), true);
  AddPieces(maker, kSpaceMark);
  return vocabulary;
}

Result<SyntheticVocabulary> MakeQwen2Vocabulary(int vocab_size) {
  constexpr int kNumSpecial = 3;
  constexpr int kMinimum = 256 + kNumSpecial;
  if (vocab_size < kMinimum) {
    return TooSmall(vocab_size, kMinimum, "256 bytes and 3 special tokens");
  }
  SyntheticVocabulary vocabulary;
  const std::string space = SpellByte(' ');
  PieceMaker maker(vocabulary, {.space = space, .any_split = false},
                   static_cast<size_t>(vocab_size - kNumSpecial));
  const auto is_sampled = [](int byte) { return IsPrintable(byte) || byte == ' ' || byte == '\n'; };
  for (int byte = 0x21; byte <= 0x7E; ++byte) maker.AddCharacter(SpellByte(byte), true);
  maker.AddCharacter(space, true);
  maker.AddCharacter(SpellByte('\n'), true);
  for (int byte = 0; byte < 256; ++byte) {
    if (!is_sampled(byte)) maker.AddCharacter(SpellByte(byte), false);
  }
  AddPieces(maker, space);
  AppendSpecial(vocabulary, "<|endoftext|>", kControl);
  AppendSpecial(vocabulary, "<|im_start|>", kControl);
  AppendSpecial(vocabulary, "<|im_end|>", kControl);
  return vocabulary;
}

}  // namespace kvgate::model
