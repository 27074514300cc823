// The identity of an engine's KV: fingerprints, and a tag of its shape.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/backend.h"

namespace kvgate::engine {

// Returns the fingerprint that two engines must share for their KV to be interchangeable. The
// tenant's salt is not part of it.
inline Fingerprint KvFingerprint(const EngineInfo& info, const model::Model& model,
                                 const tokenizer::Tokenizer& tokenizer) {
  const Fingerprint weights = model.fingerprint();
  const Fingerprint text = tokenizer.fingerprint();
  // In a model with windows, a block of the full group holds fewer layers, so the windows belong to
  // the identity: "0/WINDOW/...".
  std::string groups;
  for (const KvGroupInfo& group : info.kv_groups) {
    groups += fmt::format("{}{}", groups.empty() ? "" : "/", group.window);
  }
  const std::string identity = fmt::format(
      "weights={};tokenizer={};kv={};block={};group={};numerics={}", ToHex(weights), ToHex(text),
      kernels::DTypeName(info.kv_dtype), kernels::kKvBlockTokens, groups, info.backend.numerics_id);
  const auto [low, high] = Xxh3(std::as_bytes(std::span(identity)));
  return {.low = low, .high = high};
}

inline EngineInfo WithFingerprints(EngineInfo info, const model::Model& model,
                                   const tokenizer::Tokenizer& tokenizer) {
  const std::string identity = fmt::format("weights={};tokenizer={}", ToHex(model.fingerprint()),
                                           ToHex(tokenizer.fingerprint()));
  const auto [low, high] = Xxh3(std::as_bytes(std::span(identity)));
  info.model_fingerprint = {.low = low, .high = high};
  info.kv_fingerprint = KvFingerprint(info, model, tokenizer);
  return info;
}

// Distinguishes records of different shapes even if their fingerprints collide.
inline uint32_t ShapeTag(const kernels::KvShape& shape) {
  const std::array<uint32_t, 4> fields{
      static_cast<uint32_t>(shape.num_layers), static_cast<uint32_t>(shape.num_kv_heads),
      static_cast<uint32_t>(shape.head_dim), static_cast<uint32_t>(shape.dtype)};
  return static_cast<uint32_t>(Xxh3(std::as_bytes(std::span(fields))).first);
}

}  // namespace kvgate::engine
