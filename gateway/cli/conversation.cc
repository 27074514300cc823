#include "gateway/cli/conversation.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gateway/cli/http_client.h"
#include "gateway/cli/server_target.h"
#include "gateway/protocol/json_writer.h"

namespace kvgate::cli {
namespace {

using protocol::Message;

std::string ChatBody(const std::vector<Message>& messages, const AnswerOptions& options) {
  std::string body;
  protocol::JsonWriter json(body);
  json.BeginObject().Key("model").String(options.model).Key("stream").Bool(true);
  json.Key("max_tokens").Integer(options.max_tokens);
  json.Key("temperature").Number(options.temperature);
  json.Key("messages").BeginArray();
  for (const Message& message : messages) {
    json.BeginObject().Key("role").String(message.role);
    json.Key("content").String(message.content).EndObject();
  }
  json.EndArray().EndObject();
  return body;
}

class ServerAnswerer final : public Answerer {
 public:
  ServerAnswerer(AnsweringServer server, AnswerOptions options)
      : server_(std::move(server)), options_(std::move(options)) {}

  Result<void> Answer(const std::vector<Message>& messages, const OnText& on_text,
                      const std::atomic<bool>& stop) override {
    SseText text;
    std::optional<Error> failure;
    const auto on_data = [&](std::string_view piece) {
      if (failure) return;
      const Result<void> pushed = text.Push(piece, on_text);
      if (!pushed) failure = pushed.error();
    };
    const Result<std::string> done =
        FetchOk(RequestTo(server_.address, {.method = "POST",
                                            .url = "/v1/chat/completions",
                                            .body = ChatBody(messages, options_),
                                            .authorization = server_.authorization,
                                            .on_data = on_data,
                                            .stop = &stop}));
    if (failure) return *failure;
    if (!done && done.error().code != ErrorCode::kCancelled) return done.error();
    return {};
  }

 private:
  const AnsweringServer server_;
  const AnswerOptions options_;
};

// Set from the engine's thread, waited for on this one.
class Bell {
 public:
  void Ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void Wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

class LocalAnswerer final : public Answerer {
 public:
  LocalAnswerer(const provider::LocalProvider& provider, AnswerOptions options)
      : provider_(provider), options_(std::move(options)) {}

  Result<void> Answer(const std::vector<Message>& messages, const OnText& on_text,
                      const std::atomic<bool>& stop) override {
    protocol::CompletionRequest request;
    request.prompt = messages;
    request.max_tokens = options_.max_tokens;
    request.temperature = options_.temperature;
    Bell bell;
    KVGATE_TRY(const auto stream,
               provider_.Run({.request = request, .tenant = {}, .wake = [&bell] { bell.Ring(); }}));
    while (!stop.load()) {
      for (const protocol::CompletionEvent& event : stream->Take()) {
        if (const auto* delta = std::get_if<protocol::DeltaEvent>(&event)) {
          on_text(delta->text);
        } else if (const auto* finish = std::get_if<protocol::FinishEvent>(&event)) {
          if (finish->error) return *finish->error;
          return {};
        }
      }
      bell.Wait(std::chrono::milliseconds(100));
    }
    return {};  // the stream's destructor cancels the rest
  }

 private:
  const provider::LocalProvider& provider_;
  const AnswerOptions options_;
};

// The text of one chunk; an error where it holds one.
Result<std::string> ChunkText(std::string_view data) {
  const nlohmann::json chunk = nlohmann::json::parse(data, nullptr, false);
  if (!chunk.is_object()) return std::string();
  if (chunk.contains("error")) {
    const nlohmann::json& error = chunk["error"];
    const bool has_message =
        error.is_object() && error.contains("message") && error["message"].is_string();
    return MakeError(ErrorCode::kUnavailable, "cli",
                     has_message ? error["message"].get<std::string>() : error.dump());
  }
  const nlohmann::json content =
      chunk.value(nlohmann::json::json_pointer("/choices/0/delta/content"), nlohmann::json());
  return content.is_string() ? content.get<std::string>() : std::string();
}

}  // namespace

Result<void> SseText::Push(std::string_view piece, const Answerer::OnText& on_text) {
  pending_ += piece;
  size_t begin = 0;
  while (true) {
    const size_t end = pending_.find('\n', begin);
    if (end == std::string::npos) break;
    std::string_view line = std::string_view(pending_).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line == "[DONE]") continue;
    KVGATE_TRY(const std::string text, ChunkText(line));
    if (!text.empty()) on_text(text);
  }
  pending_.erase(0, begin);
  return {};
}

std::unique_ptr<Answerer> MakeServerAnswerer(AnsweringServer server, AnswerOptions options) {
  return std::make_unique<ServerAnswerer>(std::move(server), std::move(options));
}

std::unique_ptr<Answerer> MakeLocalAnswerer(const provider::LocalProvider& provider,
                                            AnswerOptions options) {
  return std::make_unique<LocalAnswerer>(provider, std::move(options));
}

}  // namespace kvgate::cli
