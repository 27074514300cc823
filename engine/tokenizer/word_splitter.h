// WordSplitter: how a tokenizer.json cuts normalised text into words ("pre_tokenizer"): a list of
// steps, each of which cuts, drops or rewrites the words that the steps before it left. Immutable;
// thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/json_node.h"
#include "engine/text/tokenizer/split/text_pattern.h"

namespace kvgate::tokenizer {

// What becomes of a match when text is cut by a pattern.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The words that `spans` of a text amount to, as ranges of it; none is empty.
std::vector<Span> ApplyBehavior(std::vector<Span> spans, SplitBehavior behavior);

class WordSplitter {
 public:
  // No steps: the text is one word.
  WordSplitter() = default;
  // The value of "pre_tokenizer". kUnsupported names a type we do not have.
  static Result<WordSplitter> FromJson(const JsonNode& node);

  // The words of a text, and memory for those that are not as they stand in it.
  struct Words {
    std::vector<std::string_view> words;
    std::deque<std::string> rewritten;  // a deque keeps its strings in place
  };
  struct Place {
    bool is_text_start = true;  // nothing precedes, not even a special token
    bool continues = false;     // goes on from other text: nothing is put in front
  };
  // REQUIRES: `text` is valid UTF-8 and outlives the words.
  Words Split(std::string_view text, const Place& place) const;

  // The words are bytes for a byte-level model.
  bool is_byte_level() const { return is_byte_level_; }

 private:
  using Cut = std::function<std::vector<Span>(std::string_view word)>;
  struct Step {
    Cut cut;                  // null: only rewrites
    std::string prefix = {};  // put in front of a word that does not begin with it
    bool prefix_first_only = false;
    std::string space_mark = {};      // what blanks are written as; empty: as they are
    bool sees_spelled_bytes = false;  // stands behind the byte-level step
  };
  Result<void> Add(const JsonNode& node, int depth);
  Result<void> AddSplit(const JsonNode& node);
  Result<void> AddMetaspace(const JsonNode& node);
  Result<void> AddByteLevel(const JsonNode& node);
  void AddCut(Cut cut);
  static void Run(const Step& step, const Place& place, Words& words);

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace kvgate::tokenizer
