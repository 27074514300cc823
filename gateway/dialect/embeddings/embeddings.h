// The embeddings endpoint, in OpenAI's form: the body of a request, and that of its answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gateway/dialect/form/decode_limits.h"

namespace kvgate::dialect::embeddings {

inline constexpr size_t kEmbeddingInputsMax = 2048;

// A text, or the tokens that a client has made of one.
using EmbeddingInput = std::variant<std::string, std::vector<TokenId>>;

struct EmbeddingRequest {
  std::string model;  // empty: the request names none
  std::vector<EmbeddingInput> inputs;
  bool is_list = false;    // "input" is a list of inputs, so that errors name one of them
  bool is_base64 = false;  // vectors go out as base64 of little-endian floats
  int dimensions = 0;      // 0: those of the model
};

// Fails with kInvalidArgument, which names the field.
Result<EmbeddingRequest> DecodeEmbeddings(std::string_view body, const form::DecodeLimits& limits);

// Returns "input[3]", or "input" if the request has one that is in no list.
std::string EmbeddingInputPath(bool is_list, size_t index);

struct EmbeddingReply {
  std::string_view model;
  std::span<const float> vectors;  // one after the other, each of `dimensions`
  size_t dimensions = 0;
  bool is_base64 = false;
  uint64_t num_tokens = 0;
};
std::string EncodeEmbeddings(const EmbeddingReply& reply);

}  // namespace kvgate::dialect::embeddings
