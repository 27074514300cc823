// EmbeddingCall: the request for the vectors of texts, and its answer, in the form of OpenAI's
// /v1/embeddings. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/retrieval/meaning.h"

namespace kvgate::session::retrieval {

std::string EmbeddingBody(std::string_view model, std::span<const std::string> texts);

// The vectors in the order of the texts; a vector of zeros says nothing of its text. Fails with
// kUnavailable for an answer that has not one of the same dimensions for each.
Result<std::vector<Meaning>> ReadEmbeddings(std::string_view answer, size_t num_texts);

// What is asked for of a user's words: all of few, the beginning and the end of many, because small
// models take some hundred tokens and the question stands at either end of what is pasted.
std::string AskedOf(std::string_view words);

}  // namespace kvgate::session::retrieval
