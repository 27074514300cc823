// Conversation: a chat with a model from the command line: who answers, and what each answer cost.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/cli/server/event_stream.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/local/local.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli::server {

struct AnswerOptions {
  std::string model = "local";
  int64_t max_tokens = 512;
  float temperature = 0.7f;
  std::string session = {};  // which the server keeps; empty: none
};

// The cost of an answer; -1: the server does not report it.
struct AnswerCost {
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;
  int64_t output_tokens = -1;
  double ttft_seconds = -1;  // as measured here
  double total_seconds = 0;
};
// "1204 prompt tokens, 1152 cached (95 %); 87 tokens in 2.1 s, 41.4 tok/s"; empty if nothing is
// known.
std::string CostLine(const AnswerCost& cost);

// Answers one conversation at a time. An answer that `stop` ended is not an error.
class Answerer {
 public:
  virtual ~Answerer() = default;
  using OnText = std::function<void(std::string_view)>;
  virtual Result<AnswerCost> Answer(const std::vector<dialect::form::Message>& messages,
                                    const OnText& on_text, const std::atomic<bool>& stop) = 0;
};

struct AnsweringServer {
  store::ServerAddress address;    // "http://127.0.0.1:8080"
  std::string authorization = {};  // the header's value; empty: none
};
// Answers over HTTP from a server.
std::unique_ptr<Answerer> MakeServerAnswerer(AnsweringServer server, AnswerOptions options);
// Answers from an engine in this process. `provider` must outlive the answerer.
std::unique_ptr<Answerer> MakeLocalAnswerer(const local::LocalProvider& provider,
                                            AnswerOptions options);

// Extracts the text and the usage from the events of an answer that arrives in arbitrary pieces.
class SseText {
 public:
  // Fails with kUnavailable if the server ended the stream with an error, whose message is the
  // detail.
  Result<void> Push(std::string_view piece, const Answerer::OnText& on_text);
  // The token counts, once the server has sent them.
  const AnswerCost& cost() const { return cost_; }

 private:
  AnswerCost cost_;
  EventStream events_;
};

}  // namespace kvgate::cli::server
