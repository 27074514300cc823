// Matcher: where one text stands in its grammar, and which tokens may come next.
//
// MatcherPool owns what matchers of one grammar share and go on learning: states, transitions and
// masks. It belongs to one thread (the engine's); so do its matchers, which may outlive it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/grammar/compiled_grammar.h"
#include "engine/grammar/mask_table.h"

namespace kvgate::grammar {

class Matcher : private MaskTable::User {
 public:
  explicit Matcher(std::shared_ptr<MaskTable> table);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Sets the bit of each token that may come next and clears all others: word i has tokens 64 i to
  // 64 i + 63. Tokens that end a generation may come where the text may end; control tokens never.
  //
  // Where `tokens_left`, this one included, are enough for some ending of the text, only tokens
  // behind which they still are: so the text is whole when they are used up. (One byte is one token
  // in the worst case; a vocabulary without some byte as a token may miss it.)
  // kInvalidArgument: the grammar is so ambiguous that it costs too much to go on.
  // True, and the mask stays as it was: any token may come.
  // REQUIRES: a bit for each token of the vocabulary.
  Result<bool> FillMask(std::span<uint64_t> mask, int tokens_left);

  // Goes on by a token; false, and nothing changes, where it may not come. A token that ends the
  // generation changes nothing.
  bool AcceptToken(TokenId token);

  bool CanEnd() const;
  // It can end and not go on.
  bool IsComplete() const;

 private:
  const std::shared_ptr<MaskTable> table_;
};

class MatcherPool {
 public:
  // A text that has not begun.
  std::unique_ptr<Matcher> Start(const std::shared_ptr<const CompiledGrammar>& grammar);

  // Grammars whose learnings are kept when no matcher uses them; the least recently used go first.
  static constexpr size_t kTablesMax = 16;

 private:
  std::list<std::shared_ptr<MaskTable>> tables_;  // most recently used first
};

}  // namespace kvgate::grammar
