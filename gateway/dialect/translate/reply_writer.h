// ReplyWriter writes an upstream's answer step by step in the client's dialect. Whatever the
// upstream does, it keeps the order that CompletionEvents must have: one beginning, calls that do
// not overlap, one end. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/translate/error_translator.h"

namespace kvgate::dialect::translate {

// Token counts so far. They may arrive in any event and repeatedly, and only grow.
struct ReplyUsage {
  int64_t num_prompt_tokens = 0;  // all of them
  int64_t num_cached_tokens = 0;
  int64_t num_written_tokens = 0;
  int64_t num_output_tokens = 0;
  int64_t num_reasoning_tokens = 0;
};

class ReplyWriter {
 public:
  struct Options {
    reply::ReplyOptions reply = {};  // its model is used if the upstream names none
    form::CallNamer namer = {};      // converts calls to the client's form
    // Makes the encoder of the client's dialect.
    std::unique_ptr<reply::ReplyEncoder> (*make_encoder)(reply::ReplyOptions options) = nullptr;
    size_t answer_bytes_max = 0;
  };
  explicit ReplyWriter(Options options)
      : options_(std::move(options.reply)),
        namer_(std::move(options.namer)),
        make_encoder_(options.make_encoder),
        bytes_left_(options.answer_bytes_max) {}

  // Sets the output of all following calls, until the next SetOutput.
  void SetOutput(std::string& out) { out_ = &out; }

  void Begin(const std::string& model);
  void Text(std::string_view text) { Add(form::DeltaKind::kText, text); }
  void Reasoning(std::string_view text) { Add(form::DeltaKind::kReasoning, text); }
  // Ends the reasoning so far with the provider's seal; see DeltaEvent.
  void Seal(std::string seal);
  // A call without an id gets a generated one.
  void BeginCall(const std::string& id, const std::string& name);
  // The id that the next call gets if it has none.
  std::string OwnCallId() const;
  void Arguments(std::string_view text);
  // Ends the call; if it had no arguments they are {}.
  void EndCall();
  void Ping();
  void SetUsage(const ReplyUsage& usage) { usage_ = usage; }
  void Finish(form::FinishReason reason, const std::string& stop_string = {});
  void Fail(const UpstreamError& error);

  bool begun() const { return encoder_ != nullptr; }
  bool in_call() const { return in_call_; }
  // Returns true if arguments of the open call have arrived.
  bool has_arguments() const { return has_arguments_; }
  // Returns true after Finish or Fail; later calls have no effect.
  bool ended() const { return ended_; }
  const std::optional<UpstreamError>& failure() const { return failure_; }

 private:
  void Add(form::DeltaKind kind, std::string_view text);
  bool Take(size_t bytes);
  void Send(form::DeltaEvent event);
  form::CompletionStats Stats() const;

  reply::ReplyOptions options_;
  form::CallNamer namer_;
  std::unique_ptr<reply::ReplyEncoder> (*const make_encoder_)(reply::ReplyOptions options);
  size_t bytes_left_;
  std::string* out_ = nullptr;
  std::unique_ptr<reply::ReplyEncoder> encoder_;
  ReplyUsage usage_;
  int num_calls_ = 0;
  bool in_call_ = false;
  bool has_arguments_ = false;
  bool ended_ = false;
  std::optional<UpstreamError> failure_;
};

}  // namespace kvgate::dialect::translate
