// ReplyWriter: what an upstream's answer says, step by step, as bytes of the client's dialect. It
// keeps the order that CompletionEvents must have whatever the upstream does: a beginning, calls
// that do not overlap, one end. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/protocol/form/client_calls.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/translate/error_translator.h"

namespace kvgate::translate {

// Tokens as far as they were told; fields come in any event, more than once, and only grow.
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
    protocol::ReplyOptions reply = {};  // its model stands where the upstream names none
    protocol::CallNamer namer = {};     // calls as the client has them
    size_t answer_bytes_max = 0;
  };
  explicit ReplyWriter(Options options)
      : options_(std::move(options.reply)),
        namer_(std::move(options.namer)),
        bytes_left_(options.answer_bytes_max) {}

  // Where everything below goes to; for the calls until the next one of this.
  void SetOutput(std::string& out) { out_ = &out; }

  void Begin(const std::string& model);
  void Text(std::string_view text) { Add(protocol::DeltaKind::kText, text); }
  void Reasoning(std::string_view text) { Add(protocol::DeltaKind::kReasoning, text); }
  // Of the reasoning up to here; see DeltaEvent.
  void Seal(std::string seal);
  // A call without an id gets one.
  void BeginCall(const std::string& id, const std::string& name);
  void Arguments(std::string_view text);
  // Of one without arguments they are {}.
  void EndCall();
  void Ping();
  void SetUsage(const ReplyUsage& usage) { usage_ = usage; }
  void Finish(protocol::FinishReason reason, const std::string& stop_string = {});
  void Fail(const UpstreamError& error);

  bool begun() const { return encoder_ != nullptr; }
  bool in_call() const { return in_call_; }
  // Arguments of the open call have come.
  bool has_arguments() const { return has_arguments_; }
  // Finish or Fail was called: nothing that follows has an effect.
  bool ended() const { return ended_; }
  const std::optional<UpstreamError>& failure() const { return failure_; }

 private:
  void Add(protocol::DeltaKind kind, std::string_view text);
  bool Take(size_t bytes);
  void Send(protocol::DeltaEvent event);
  protocol::CompletionStats Stats() const;

  protocol::ReplyOptions options_;
  protocol::CallNamer namer_;
  size_t bytes_left_;
  std::string* out_ = nullptr;
  std::unique_ptr<protocol::ReplyEncoder> encoder_;
  ReplyUsage usage_;
  int num_calls_ = 0;
  bool in_call_ = false;
  bool has_arguments_ = false;
  bool ended_ = false;
  std::optional<UpstreamError> failure_;
};

}  // namespace kvgate::translate
