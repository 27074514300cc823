#include "gateway/local/parsed_stream.h"

#include <optional>
#include <random>
#include <utility>

#include "base/digest.h"

namespace kvgate::local {
namespace {

using dialect::form::CompletionEvent;
using dialect::form::DeltaEvent;
using dialect::form::DeltaKind;
using dialect::form::FinishEvent;
using dialect::form::FinishReason;
using output::Piece;
using output::PieceKind;

constexpr int kIdLength = 24;
// Shorter ids count the calls of a turn and repeat in the next one, but clients need distinct ids.
constexpr size_t kModelIdBytesMin = 9;

std::string RandomLetters(int count) {
  thread_local std::mt19937_64 random(RandomSeed());
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string text;
  for (int i = 0; i < count; ++i) text += kLetters[random() % kLetters.size()];
  return text;
}

DeltaKind ToKind(PieceKind kind) {
  switch (kind) {
    case PieceKind::kText:
      return DeltaKind::kText;
    case PieceKind::kReasoning:
      return DeltaKind::kReasoning;
    case PieceKind::kCall:
      return DeltaKind::kCall;
    case PieceKind::kArguments:
      return DeltaKind::kArguments;
    case PieceKind::kCallEnd:
      return DeltaKind::kCallEnd;
  }
  return DeltaKind::kText;
}

class ParsedStream final : public EventStream {
 public:
  ParsedStream(std::unique_ptr<EventStream> stream, const ParsedStreamOptions& options)
      : stream_(std::move(stream)),
        parser_(output::MakeReplyParser(options.parser)),
        id_prefix_(options.id_length > 0 ? "" : options.id_prefix),
        id_length_(options.id_length > 0 ? options.id_length : kIdLength),
        parallel_(options.parallel),
        namer_(options.namer) {}

  std::vector<CompletionEvent> Take() override {
    std::vector<CompletionEvent> events;
    for (CompletionEvent& event : stream_->Take()) {
      if (auto* delta = std::get_if<DeltaEvent>(&event)) {
        std::vector<Piece> pieces;
        parser_->Push(delta->text, pieces);
        Tell(std::move(pieces), std::move(delta->tokens), events);
      } else if (auto* finish = std::get_if<FinishEvent>(&event)) {
        std::vector<Piece> pieces;
        parser_->Finish(pieces);
        Tell(std::move(pieces), {}, events);
        Conclude(*finish);
        events.push_back(std::move(event));
      } else {
        events.push_back(std::move(event));
      }
    }
    return events;
  }

  void Cancel() override {
    cancelled_ = true;
    stream_->Cancel();
  }

 private:
  // Log-probabilities go with the first delta, because pieces do not know their tokens.
  void Tell(std::vector<Piece> pieces, std::vector<dialect::form::TokenDetail> tokens,
            std::vector<CompletionEvent>& events) {
    if (pieces.empty() && !tokens.empty()) pieces.push_back({.kind = PieceKind::kText});
    for (Piece& piece : pieces) {
      if (enough_) return;
      Count(piece);
      DeltaEvent delta{.kind = ToKind(piece.kind)};
      if (piece.kind == PieceKind::kCall) {
        delta.call_id = piece.id.size() >= kModelIdBytesMin
                            ? std::move(piece.id)
                            : id_prefix_ + RandomLetters(id_length_);
      }
      delta.text = std::move(piece.text);
      delta.call = num_calls_ - 1;
      delta.tokens = std::exchange(tokens, {});
      namer_.Apply(delta);
      events.emplace_back(std::move(delta));
    }
  }

  void Count(const Piece& piece) {
    if (piece.kind == PieceKind::kCall) ++num_calls_;
    num_bytes_ += piece.text.size();
    if (piece.kind == PieceKind::kReasoning) num_reasoning_bytes_ += piece.text.size();
    if (piece.kind == PieceKind::kCallEnd && !parallel_) {
      enough_ = true;
      stream_->Cancel();
    }
  }

  void Conclude(FinishEvent& finish) const {
    if (enough_ && !cancelled_ && finish.error && finish.error->code == ErrorCode::kCancelled) {
      finish.error.reset();
      finish.reason = FinishReason::kStop;
    }
    if (num_calls_ > 0 && finish.reason == FinishReason::kStop) {
      finish.reason = FinishReason::kToolCalls;
    }
    if (num_bytes_ > 0) {
      finish.stats.num_reasoning_tokens = finish.stats.num_output_tokens *
                                          static_cast<int64_t>(num_reasoning_bytes_) /
                                          static_cast<int64_t>(num_bytes_);
    }
  }

  const std::unique_ptr<EventStream> stream_;
  const std::unique_ptr<output::ReplyParser> parser_;
  const std::string id_prefix_;
  const int id_length_;
  const bool parallel_;
  dialect::form::CallNamer namer_;
  int num_calls_ = 0;
  size_t num_bytes_ = 0;
  size_t num_reasoning_bytes_ = 0;
  bool enough_ = false;  // the only wanted call is complete
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<EventStream> ParseStream(std::unique_ptr<EventStream> stream,
                                         const ParsedStreamOptions& options) {
  return std::make_unique<ParsedStream>(std::move(stream), options);
}

}  // namespace kvgate::local
