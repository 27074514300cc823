#include "gateway/ledger/reply/usage_reader.h"

#include <algorithm>

#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::ledger::reply {
namespace {

// Returns the media type without parameters and spaces, as of "application/json; charset=utf-8".
std::string_view MediaType(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  while (!type.empty() && type.front() == ' ') type.remove_prefix(1);
  return type;
}

}  // namespace

UsageReader::UsageReader(const Body& body) : endpoint_(body.endpoint) {
  const std::string_view type = MediaType(body.content_type);
  events_ = upstream::wire::SameName(type, "text/event-stream");
  const bool json =
      upstream::wire::SameName(type, "application/json") ||
      (type.size() > 5 && upstream::wire::SameName(type.substr(type.size() - 5), "+json"));
  if (!events_ && !json) {
    unreadable_ = "media type";
  } else if (!upstream::wire::IsIdentity(body.content_encoding)) {
    decoder_ = upstream::wire::ContentDecoder::For(body.content_encoding);
    if (!decoder_) unreadable_ = "encoded";
  }
}

void UsageReader::Feed(std::string_view piece) {
  if (!unreadable_.empty()) return;
  if (!decoder_) {
    OnDecoded(piece);
    return;
  }
  const auto state = decoder_->Feed(piece, *this);
  if (state == upstream::wire::ContentDecoder::State::kBroken) unreadable_ = "broken encoding";
  if (state == upstream::wire::ContentDecoder::State::kTooLarge) unreadable_ = "expands too much";
  if (!unreadable_.empty()) decoder_.reset();
}

std::optional<TokenUsage> UsageReader::usage() const {
  return unreadable_.empty() ? Normalize(facts_.usage, endpoint_) : std::nullopt;
}

void UsageReader::OnDecoded(std::string_view piece) {
  if (events_) {
    sse_.Feed(piece);
    return;
  }
  if (scanner_.complete()) return;
  scanner_.Feed(piece);
  if (scanner_.complete()) Merge();
}

void UsageReader::OnData(std::string_view piece) { scanner_.Feed(piece); }

void UsageReader::OnEventEnd() {
  ++num_events_;
  if (scanner_.complete()) Merge();
  scanner_.Reset();
}

void UsageReader::Merge() {
  const ReplyFacts& found = scanner_.facts();
  facts_.usage.MergeMax(found.usage);
  if (found.model.size > 0) facts_.model = found.model;
  if (found.service_tier.size > 0) facts_.service_tier = found.service_tier;
  facts_.type = found.type;
  // Later events repeat what the first one says.
  facts_.num_thinking_dropped = std::max(facts_.num_thinking_dropped, found.num_thinking_dropped);
  facts_.error = facts_.error || found.error;
  // The first event of a stream may say that the reason is still pending.
  const ShortText<40>& reason = found.provider_reason;
  if (reason.size != 0 && (facts_.provider_reason.size == 0 || reason.view() != "pending")) {
    facts_.provider_reason = reason;
  }
}

}  // namespace kvgate::ledger::reply
