// Ranking: which passages stand out among all by their likeness to a question, and two rankings as
// one. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::session::retrieval {

struct Likeness {
  uint32_t entry = 0;
  double cosine = 0;
};

// The entries that are so much more like the question than most are that it is no accident, the
// likest first; of equals the later one. What a cosine means differs from model to model, so it is
// compared with the others: their median, and how far from that half of them are. None may be.
std::vector<uint32_t> StandingOut(std::span<const Likeness> all);

// All entries of both rankings, which begin with their best, once (reciprocal rank fusion, Cormack
// et al. 2009). Of equals that of `first`.
std::vector<uint32_t> Fused(std::span<const uint32_t> first, std::span<const uint32_t> second);

}  // namespace kvgate::session::retrieval
