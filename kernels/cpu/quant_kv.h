// KV of quantized dtypes (q8_0, q4_0) in the CPU order that KvArena documents: storing and copying
// of tokens. attention_kernels.cc reads them.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Quantizes k and v [head_dim] of one token into `slot` of one layer and KV head, whose K starts at
// `head`. It writes no byte of another token, so threads may store tokens of one block in parallel.
void StoreQuantToken(const KvShape& shape, const float* k, const float* v, int slot,
                     std::byte* head);
// Copies the first num_tokens tokens of a block, bit for bit, for all layers and heads.
void CopyQuantTokens(const KvShape& shape, const std::byte* from, std::byte* to, int num_tokens);

}  // namespace kvgate::kernels::cpu
