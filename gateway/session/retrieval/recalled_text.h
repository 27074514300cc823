// RecalledText: passages that were found, as a part of a prompt: content of a user's message in
// marks that say what it is. Pure.
#pragma once

#include <span>
#include <string>

#include "gateway/session/retrieval/passage_index.h"

namespace kvgate::session::retrieval {

// The passages in their marks; empty if there are none. What closes the marks inside a passage is
// made harmless. The bytes depend on `found` alone.
std::string RecalledText(std::span<const Found> found);

// Bytes of passages for a budget in tokens: a text of English has about four a token, the marks
// take some.
size_t BytesOfBudget(int64_t tokens);

}  // namespace kvgate::session::retrieval
