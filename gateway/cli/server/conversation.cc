#include "gateway/cli/server/conversation.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::cli::server {
namespace {

using dialect::form::Message;

std::string ChatBody(const std::vector<Message>& messages, const AnswerOptions& options) {
  std::string body;
  dialect::form::JsonWriter json(body);
  json.BeginObject().Key("model").String(options.model).Key("stream").Bool(true);
  json.Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
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

// Measures the time of an answer from its request on.
class Watch {
 public:
  void OnText() {
    if (ttft_seconds_ < 0) ttft_seconds_ = Seconds();
  }
  AnswerCost Stop(AnswerCost cost) const {
    cost.ttft_seconds = ttft_seconds_;
    cost.total_seconds = Seconds();
    return cost;
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double ttft_seconds_ = -1;
};

class ServerAnswerer final : public Answerer {
 public:
  ServerAnswerer(AnsweringServer server, AnswerOptions options)
      : server_(std::move(server)), options_(std::move(options)) {}

  Result<AnswerCost> Answer(const std::vector<Message>& messages, const OnText& on_text,
                            const std::atomic<bool>& stop) override {
    SseText text;
    Watch watch;
    std::optional<Error> failure;
    const auto on_data = [&](std::string_view piece) {
      if (failure) return;
      const Result<void> pushed = text.Push(piece, [&](std::string_view more) {
        watch.OnText();
        on_text(more);
      });
      if (!pushed) failure = pushed.error();
    };
    const Result<std::string> done =
        FetchOk(RequestTo(server_.address, {.method = "POST",
                                            .url = "/v1/chat/completions",
                                            .body = ChatBody(messages, options_),
                                            .authorization = server_.authorization,
                                            .session = options_.session,
                                            .on_data = on_data,
                                            .stop = &stop}));
    if (failure) return *failure;
    if (!done && done.error().code != ErrorCode::kCancelled) return done.error();
    return watch.Stop(text.cost());
  }

 private:
  const AnsweringServer server_;
  const AnswerOptions options_;
};

// Rung by the engine's thread; this thread waits for it.
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
  LocalAnswerer(const local::LocalProvider& provider, AnswerOptions options)
      : provider_(provider), options_(std::move(options)) {}

  Result<AnswerCost> Answer(const std::vector<Message>& messages, const OnText& on_text,
                            const std::atomic<bool>& stop) override {
    Watch watch;
    dialect::form::CompletionRequest request;
    request.prompt = messages;
    request.max_tokens = options_.max_tokens;
    request.temperature = options_.temperature;
    Bell bell;
    KVGATE_TRY(const auto stream,
               provider_.Run({.request = request, .tenant = {}, .wake = [&bell] { bell.Ring(); }}));
    while (!stop.load()) {
      for (const dialect::form::CompletionEvent& event : stream->Take()) {
        if (const auto* delta = std::get_if<dialect::form::DeltaEvent>(&event)) {
          watch.OnText();
          on_text(delta->text);
        } else if (const auto* finish = std::get_if<dialect::form::FinishEvent>(&event)) {
          if (finish->error) return *finish->error;
          return watch.Stop({.prompt_tokens = finish->stats.num_prompt_tokens,
                             .cached_tokens = finish->stats.num_cached_tokens,
                             .output_tokens = finish->stats.num_output_tokens});
        }
      }
      bell.Wait(std::chrono::milliseconds(100));
    }
    return watch.Stop({});  // the stream's destructor cancels the rest
  }

 private:
  const local::LocalProvider& provider_;
  const AnswerOptions options_;
};

int64_t CountAt(const nlohmann::json& json, const char* pointer) {
  const nlohmann::json found = json.value(nlohmann::json::json_pointer(pointer), nlohmann::json());
  return found.is_number_integer() ? found.get<int64_t>() : -1;
}

// Returns the text of one chunk, or the error that it holds. Stores its usage, if any, in `cost`.
Result<std::string> ChunkText(std::string_view data, AnswerCost& cost) {
  const nlohmann::json chunk = nlohmann::json::parse(data, nullptr, false);
  if (!chunk.is_object()) return std::string();
  if (chunk.contains("error")) {
    const nlohmann::json& error = chunk["error"];
    const bool has_message =
        error.is_object() && error.contains("message") && error["message"].is_string();
    return MakeError(ErrorCode::kUnavailable, "cli",
                     has_message ? error["message"].get<std::string>() : error.dump());
  }
  if (chunk.contains("usage") && chunk["usage"].is_object()) {
    cost.prompt_tokens = CountAt(chunk, "/usage/prompt_tokens");
    cost.cached_tokens = CountAt(chunk, "/usage/prompt_tokens_details/cached_tokens");
    cost.output_tokens = CountAt(chunk, "/usage/completion_tokens");
  }
  const nlohmann::json content =
      chunk.value(nlohmann::json::json_pointer("/choices/0/delta/content"), nlohmann::json());
  return content.is_string() ? content.get<std::string>() : std::string();
}

}  // namespace

std::string CostLine(const AnswerCost& cost) {
  std::string line;
  if (cost.prompt_tokens > 0) {
    line = fmt::format("{} prompt tokens", cost.prompt_tokens);
    if (cost.cached_tokens >= 0) {
      line += fmt::format(", {} cached ({} %)", cost.cached_tokens,
                          100 * cost.cached_tokens / cost.prompt_tokens);
    }
  }
  if (cost.output_tokens > 0) {
    line += fmt::format("{}{} tokens in {:.1f} s", line.empty() ? "" : "; ", cost.output_tokens,
                        cost.total_seconds);
    // Counts the time after the first token, because TTFT depends on the prompt.
    const double seconds = cost.total_seconds - cost.ttft_seconds;
    if (cost.output_tokens > 1 && cost.ttft_seconds >= 0 && seconds > 0) {
      line += fmt::format(", {:.1f} tok/s", static_cast<double>(cost.output_tokens - 1) / seconds);
    }
  }
  return line;
}

Result<void> SseText::Push(std::string_view piece, const Answerer::OnText& on_text) {
  Result<void> pushed;
  events_.Push(piece, [&](std::string_view /*name*/, std::string_view data) {
    if (data == "[DONE]" || !pushed) return;
    const Result<std::string> text = ChunkText(data, cost_);
    if (!text) {
      pushed = text.error();
    } else if (!text->empty()) {
      on_text(*text);
    }
  });
  return pushed;
}

std::unique_ptr<Answerer> MakeServerAnswerer(AnsweringServer server, AnswerOptions options) {
  return std::make_unique<ServerAnswerer>(std::move(server), std::move(options));
}

std::unique_ptr<Answerer> MakeLocalAnswerer(const local::LocalProvider& provider,
                                            AnswerOptions options) {
  return std::make_unique<LocalAnswerer>(provider, std::move(options));
}

}  // namespace kvgate::cli::server
