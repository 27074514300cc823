// WordSplitter: splits normalised text into words as a tokenizer.json's "pre_tokenizer" says: a
// list of steps, each of which cuts, drops or rewrites the words of the earlier steps. Immutable;
// thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/split/json_node.h"
#include "engine/text/tokenizer/split/text_pattern.h"

namespace kvgate::tokenizer::split {

// How a match of the pattern is treated when text is split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Applies the behavior to the `spans` of a text and returns the words as ranges; none is empty.
std::vector<Span> ApplyBehavior(std::vector<Span> spans, SplitBehavior behavior);

class WordSplitter {
 public:
  // A splitter without steps: the text is one word.
  WordSplitter() = default;
  // Reads the value of "pre_tokenizer". kUnsupported names a type that is not implemented.
  static Result<WordSplitter> FromJson(const JsonNode& node);

  // The words of a text, with memory for words that were rewritten.
  struct Words {
    std::vector<std::string_view> words;
    std::deque<std::string> rewritten;  // a deque keeps its strings in place
  };
  struct Place {
    bool is_text_start = true;  // no text and no special token precedes
    bool continues = false;     // continues earlier text: no prefix is added
  };
  // REQUIRES: `text` is valid UTF-8 and outlives the words.
  Words Split(std::string_view text, const Place& place) const;

  // Returns true if the words are raw bytes for a byte-level model.
  bool is_byte_level() const { return is_byte_level_; }

 private:
  using Cut = std::function<std::vector<Span>(std::string_view word)>;
  struct Step {
    Cut cut;                  // null: the step only rewrites
    std::string prefix = {};  // prepended to words that do not begin with it
    bool prefix_first_only = false;
    std::string space_mark = {};      // replaces blanks; empty: blanks stay
    bool sees_spelled_bytes = false;  // comes after the byte-level step
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

}  // namespace kvgate::tokenizer::split
