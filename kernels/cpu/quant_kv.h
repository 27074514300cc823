// KV of quantized dtypes (q8_0, q4_0) in the order that KvArena documents for the CPU: how a token
// is stored and tokens are copied. Attention reads them in attention_kernels.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Quantizes k and v [head_dim] of one token into `slot` of one layer and KV head, whose K begins at
// `head`. Writes no byte of another token, so threads may store tokens of one block.
void StoreQuantToken(const KvShape& shape, const float* k, const float* v, int slot,
                     std::byte* head);
// Copies the first num_tokens tokens of a block, of all layers and heads, bit by bit.
void CopyQuantTokens(const KvShape& shape, const std::byte* from, std::byte* to, int num_tokens);

}  // namespace kvgate::kernels::cpu
