#include "engine/tier/prefix_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/kv/tenant_salt.h"
#include "kernels/backend.h"

namespace kvgate::tier {
namespace {

using kernels::kKvBlockTokens;

constexpr std::string_view kSource = "tier.transfer";
// Bytes of one Put. The store takes at most a third of its cap per call, and the least cap is 16
// MiB.
constexpr uint64_t kBatchBytes = uint64_t{4} << 20;

std::span<const TokenId, kKvBlockTokens> BlockOf(std::span<const TokenId> tokens, size_t index) {
  return tokens.subspan(index * kKvBlockTokens).first<kKvBlockTokens>();
}

}  // namespace

std::vector<kv::BlockKey> PrefixKeys(const kv::BlockHasher::Options& options, std::string_view salt,
                                     std::span<const TokenId> tokens) {
  kv::BlockHasher hasher(options);
  std::vector<kv::BlockKey> keys;
  kv::BlockKey last = hasher.Root(salt);
  for (size_t i = 0; (i + 1) * kKvBlockTokens <= tokens.size(); ++i) {
    last = hasher.Next(last, BlockOf(tokens, i));
    keys.push_back(last);
  }
  return keys;
}

Result<StoredPrefix> ReadPrefix(store::kv::KvStore& kv, const DirectoryKeys& keys,
                                const BlockHash& id, std::span<const std::string> tenants) {
  StoredPrefix prefix;
  KVGATE_TRY(prefix.keys, kv.Chain(id));
  PrefixDigest digest;
  for (const store::kv::KvKey& key : prefix.keys) {
    KVGATE_TRY(const store::kv::KvBlock block, kv.Read(key));
    if (block.tokens.size() != kKvBlockTokens) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       fmt::format("the prefix {} was stored without its token ids", ToHex(id)));
    }
    prefix.tokens.insert(prefix.tokens.end(), block.tokens.begin(), block.tokens.end());
    digest = block.digest;
  }
  for (const std::string& tenant : tenants) {
    const auto computed =
        PrefixKeys({.fingerprint = prefix.keys.back().fingerprint, .seed = keys.hash_seed},
                   kv::TenantSalt(keys.ring, tenant), prefix.tokens);
    if (computed.back().digest != digest) continue;
    prefix.tenant = tenant;
    return prefix;
  }
  return MakeError(
      ErrorCode::kPermissionDenied, kSource,
      fmt::format("the prefix {} belongs to another tenant: ask with that tenant's credential",
                  ToHex(id)));
}

PrefixExporter::PrefixExporter(store::kv::KvStore& kv, const Keyring& ring, StoredPrefix prefix)
    : kv_(kv), prefix_(std::move(prefix)), writer_(ring) {
  kv_.Touch(prefix_.keys);
}

Result<bool> PrefixExporter::Next(std::string& out) {
  out.clear();
  if (!started_) {
    started_ = true;
    writer_.Header({.fingerprint = prefix_.keys.back().fingerprint,
                    .tenant = prefix_.tenant,
                    .num_blocks = static_cast<uint32_t>(prefix_.keys.size())},
                   out);
    return true;
  }
  if (num_done_ < prefix_.keys.size()) {
    const store::kv::KvKey& key = prefix_.keys[num_done_];
    KVGATE_TRY(const store::kv::KvBlock block, kv_.Read(key));
    writer_.Block(block, out);
    for (const store::kv::KvKey& window_key : kv_.WindowKeys(key)) {
      // A window that was evicted meanwhile is left out.
      if (const auto window = kv_.Read(window_key)) writer_.Block(*window, out);
    }
    last_digest_ = block.digest;
    ++num_done_;
    return true;
  }
  writer_.End({.num_blocks = static_cast<uint32_t>(num_done_), .digest = last_digest_}, out);
  return false;
}

Result<void> PrefixImporter::Feed(std::string_view bytes) {
  if (stopped_ || ended_) return {};
  // Cuts the input into pieces, so that little more than a block is buffered however much is fed.
  constexpr size_t kPiece = size_t{1} << 20;
  for (; !bytes.empty() && !stopped_ && !ended_;
       bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
    reader_.Feed(bytes.substr(0, kPiece));
    while (!stopped_ && !ended_) {
      auto frame = reader_.Next();
      if (!frame && (frame.error().code == ErrorCode::kUnsupported ||
                     frame.error().code == ErrorCode::kPermissionDenied)) {
        return frame.error();
      }
      if (!frame) {
        Stop(frame.error().detail);
        break;
      }
      if (!*frame) break;
      KVGATE_TRY_VOID(Take(std::move(**frame)));
    }
  }
  return {};
}

Result<void> PrefixImporter::Take(store::kv::PrefixFileReader::Frame frame) {
  if (const auto* header = std::get_if<store::kv::PrefixFileHeader>(&frame)) {
    return TakeHeader(*header);
  }
  if (auto* block = std::get_if<store::kv::KvBlock>(&frame)) {
    return block->group == kv::kFullGroup ? TakeBlock(std::move(*block))
                                          : TakeWindow(std::move(*block));
  }
  const auto& end = std::get<store::kv::PrefixFileEnd>(frame);
  ended_ = true;
  if (end.num_blocks != num_proved_ || end.digest != last_.digest) {
    Stop("the end of the file is of another prefix");
  }
  return {};
}

// Called before any block is stored.
Result<void> PrefixImporter::CheckModel(const Fingerprint& fingerprint) const {
  constexpr size_t kNamedMax = 4;
  if (targets_.empty()) return {};
  std::string known;
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i].fingerprint == fingerprint) return {};
    if (i >= kNamedMax) continue;
    known += fmt::format("{}{} is {}", known.empty() ? "" : ", ", targets_[i].name,
                         ToHex(targets_[i].fingerprint));
  }
  return MakeError(
      ErrorCode::kUnsupported, kSource,
      fmt::format("the file holds KV of the model {} (weights, tokenizer, KV dtype and numerics), "
                  "and {}: it would never be served here. --any (`any=1`) imports it anyway",
                  ToHex(fingerprint), known),
      "fingerprint");
}

Result<void> PrefixImporter::TakeHeader(const store::kv::PrefixFileHeader& header) {
  if (header_) {
    Stop("a second header");
    return {};
  }
  KVGATE_TRY_VOID(CheckModel(header.fingerprint));
  header_ = header;
  hasher_.emplace(
      kv::BlockHasher::Options{.fingerprint = header.fingerprint, .seed = keys_.hash_seed});
  last_ = hasher_->Root(kv::TenantSalt(keys_.ring, header.tenant));
  return {};
}

Result<void> PrefixImporter::TakeBlock(store::kv::KvBlock block) {
  if (block.depth != num_proved_ || num_proved_ == header_->num_blocks ||
      block.tokens.size() != kKvBlockTokens) {
    Stop(fmt::format("block {}: not the one that is due", num_proved_));
    return {};
  }
  const kv::BlockKey key = hasher_->Next(last_, BlockOf(block.tokens, 0));
  if (key.digest != block.digest) {
    Stop(fmt::format("block {}: its digest is not that of its tokens", num_proved_));
    return {};
  }
  block.key = {.fingerprint = header_->fingerprint, .hash = key.hash};
  block.parent = num_proved_ == 0 ? BlockHash{} : last_.hash;
  last_ = key;
  ++num_proved_;
  return Append(std::move(block));
}

// Takes another KV group's part of the last block.
Result<void> PrefixImporter::TakeWindow(store::kv::KvBlock window) {
  if (num_proved_ == 0 || window.depth != num_proved_ || window.digest != last_.digest ||
      !window.tokens.empty()) {
    Stop(fmt::format("block {}: a window that is not its own", num_proved_));
    return {};
  }
  window.key = {.fingerprint = header_->fingerprint,
                .hash = kv::GroupHash(last_.hash, window.group)};
  window.parent = last_.hash;
  return Append(std::move(window));
}

Result<void> PrefixImporter::Append(store::kv::KvBlock block) {
  batch_bytes_ += block.payload.size();
  batch_.push_back(std::move(block));
  if (batch_bytes_ < kBatchBytes) return {};
  return Store();
}

Result<void> PrefixImporter::Store() {
  std::vector<store::kv::KvRecord> records;
  for (const store::kv::KvBlock& block : batch_) {
    records.push_back({.key = block.key,
                       .parent = block.parent,
                       .depth = block.depth,
                       .digest = block.digest,
                       .group = block.group,
                       .shape_tag = block.shape_tag,
                       .tokens = block.tokens,
                       .payload = block.payload});
    if (block.group == kv::kFullGroup) stored_.push_back(block.key);
  }
  if (!records.empty()) KVGATE_TRY_VOID(kv_.Put(records));
  batch_.clear();
  batch_bytes_ = 0;
  return {};
}

void PrefixImporter::Stop(std::string reason) {
  stopped_ = true;
  if (reason_.empty()) reason_ = std::move(reason);
}

Result<ImportReport> PrefixImporter::Finish() {
  if (!header_) {
    return MakeError(ErrorCode::kUnsupported, kSource, "this is not an exported prefix");
  }
  if (!ended_) Stop("the file is cut short");
  KVGATE_TRY_VOID(Store());
  KVGATE_TRY_VOID(kv_.Flush());
  ImportReport report{.id = {},
                      .fingerprint = header_->fingerprint,
                      .num_blocks = header_->num_blocks,
                      .num_imported = 0,
                      .reason = reason_};
  for (const store::kv::KvKey& key : stored_) {
    if (!kv_.Contains(key)) {
      if (report.reason.empty()) report.reason = "the store has no room for all of it";
      break;
    }
    report.id = key.hash;
    ++report.num_imported;
  }
  return report;
}

}  // namespace kvgate::tier
