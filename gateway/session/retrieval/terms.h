// Terms: the words of a text as they are searched for: without case, English inflections folded,
// names written in camelCase also by their parts, and scripts without spaces by pairs of their
// characters. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvgate::session::retrieval {

// A hash of a word. Two words with one hash would only make a passage look a little better.
using Term = uint64_t;

// All terms in their order, repeated ones included, without the words that stand in any text
// ("the", "what"). Takes time linear in the text.
std::vector<Term> TermsOf(std::string_view text);

}  // namespace kvgate::session::retrieval
