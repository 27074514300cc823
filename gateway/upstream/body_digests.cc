#include "gateway/upstream/body_digests.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

namespace kvgate::upstream {
namespace {

// The hash of each whole part of the body together with all before it.
std::vector<BlockHash> HashParts(uint64_t seed, std::string_view tenant, std::string_view body) {
  std::vector<BlockHash> parts;
  parts.reserve(body.size() / BodyDigests::kPartBytes);
  auto [low, high] = Xxh3(std::as_bytes(std::span(tenant)), seed);
  for (size_t at = 0; at + BodyDigests::kPartBytes <= body.size(); at += BodyDigests::kPartBytes) {
    const std::string_view part = body.substr(at, BodyDigests::kPartBytes);
    const auto own = Xxh3(std::as_bytes(std::span(part)), seed);
    const std::array<uint64_t, 4> chain = {low, high, own.first, own.second};
    std::tie(low, high) = Xxh3(std::as_bytes(std::span(chain)), seed);
    parts.push_back({.low = low, .high = high});
  }
  return parts;
}

}  // namespace

PrefixDigest BodyDigests::Of(std::string_view tenant, std::string_view body) {
  if (body.size() < kPartBytes) return ThreadSha256().Update(body).Finish();
  const std::vector<BlockHash> parts = HashParts(seed_, tenant, body);
  Sha256 sha;
  const size_t first = Restore(parts, sha);
  const size_t kept = parts.size() - std::min(parts.size(), kStatesOfBodyMax);
  for (size_t part = first; part < parts.size(); ++part) {
    sha.Update(body.substr(part * kPartBytes, kPartBytes));
    if (part < kept) continue;
    auto state = std::make_unique<Sha256>();
    state->ContinueFrom(sha);
    const std::lock_guard lock(mutex_);
    states_.FindOrAdd(parts[part]) = std::move(state);
  }
  const PrefixDigest digest = sha.Update(body.substr(parts.size() * kPartBytes)).Finish();
  const std::lock_guard lock(mutex_);
  bytes_hashed_ += body.size() - first * kPartBytes;
  return digest;
}

size_t BodyDigests::Restore(const std::vector<BlockHash>& parts, Sha256& sha) {
  const std::lock_guard lock(mutex_);
  for (size_t num = parts.size(); num > 0; --num) {
    const std::unique_ptr<const Sha256>* const state = states_.Find(parts[num - 1]);
    if (state == nullptr || !*state) continue;
    sha.ContinueFrom(**state);
    return num;
  }
  return 0;
}

uint64_t BodyDigests::bytes_hashed() const {
  const std::lock_guard lock(mutex_);
  return bytes_hashed_;
}

}  // namespace kvgate::upstream
