#include "gateway/prompt/diagnose/prompt_parts.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/digest.h"

namespace kvgate::prompt::diagnose {
namespace {

using history::SentSegment;
using ledger::segment::kSegmentsMax;
using ledger::segment::RecordSegment;

// Parts of a long prompt that are shown at its front and at its end; the rest has a row for each
// source.
constexpr size_t kFront = 100;
constexpr size_t kBack = kSegmentsMax - kFront - parse::kNumSources;

std::string_view RoleName(parse::Role role) {
  static constexpr std::array<std::string_view, 6> kNames = {"",     "system",    "developer",
                                                             "user", "assistant", "tool"};
  return kNames[static_cast<size_t>(role)];
}

std::string PointerOf(const parse::Place& place) {
  std::string path = fmt::format("/{}", place.field);
  if (place.element >= 0) path += fmt::format("/{}", place.element);
  if (place.block >= 0) path += fmt::format("/content/{}", place.block);
  return path;
}

RecordSegment ToRow(const SentSegment& segment, const SourceTokens& tokens,
                    SegmentNames::Named& named) {
  return {.source = std::string(parse::SourceName(segment.source)),
          .name = std::move(named.name),
          .server = std::move(named.server),
          .role = std::string(RoleName(segment.role)),
          .path = PointerOf(segment.place),
          .bytes = segment.bytes ? static_cast<int64_t>(segment.bytes->size()) : 0,
          .cached = tokens.cached,
          .written = tokens.written,
          .uncached = tokens.uncached,
          .hash = segment.sent_raw.low};
}

// Appends one row for each source of the parts.
void AppendRest(const AttributeArgs& args, std::span<const AttributedSegment> parts,
                std::vector<RecordSegment>& rows) {
  std::array<RecordSegment, parse::kNumSources> sums;
  std::array<size_t, parse::kNumSources> counts{};
  for (const auto& [index, tokens] : parts) {
    const SentSegment& segment = args.segments[index];
    const auto source = static_cast<size_t>(segment.source);
    RecordSegment& sum = sums[source];
    ++counts[source];
    sum.bytes += segment.bytes ? static_cast<int64_t>(segment.bytes->size()) : 0;
    sum.cached += tokens.cached;
    sum.written += tokens.written;
    sum.uncached += tokens.uncached;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] == 0) continue;
    sums[i].source = parse::SourceName(static_cast<parse::Source>(i));
    sums[i].name = fmt::format("… {} more", counts[i]);
    rows.push_back(std::move(sums[i]));
  }
}

}  // namespace

std::vector<RecordSegment> PartsOf(const AttributeArgs& args, const Attributed& attributed,
                                   SegmentNames& names) {
  std::vector<RecordSegment> rows;
  const std::span<const AttributedSegment> parts = attributed.parts;
  if (parts.empty()) {
    const ledger::reply::TokenUsage& usage = args.usage;
    rows.push_back({.source = std::string(parse::SourceName(parse::Source::kUser)),
                    .cached = usage.cache_read_tokens,
                    .written = usage.cache_write_tokens + usage.cache_write_1h_tokens,
                    .uncached = usage.uncached_tokens});
    return rows;
  }
  std::vector<SegmentNames::Named> named = names.Of(args.segments);
  const auto append = [&](std::span<const AttributedSegment> some) {
    for (const auto& [index, tokens] : some) {
      rows.push_back(ToRow(args.segments[index], tokens, named[index]));
    }
  };
  if (parts.size() <= kSegmentsMax) {
    append(parts);
    return rows;
  }
  append(parts.first(kFront));
  AppendRest(args, parts.subspan(kFront, parts.size() - kFront - kBack), rows);
  append(parts.last(kBack));
  return rows;
}

std::string PromptIdOf(const history::SentSegments& segments) {
  std::vector<uint64_t> identities;
  for (size_t i = 0; i < segments.size(); ++i) {
    const SentSegment& segment = segments[i];
    if (segment.place.section == parse::Section::kMessages) continue;
    identities.push_back(segment.stable.low);
    identities.push_back(segment.stable.high);
  }
  if (identities.empty()) return {};
  return fmt::format("{:016x}", Xxh3(std::as_bytes(std::span(identities))).first);
}

}  // namespace kvgate::prompt::diagnose
