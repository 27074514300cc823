// Conversation: a talk with a model from the command line: the turns so far, and who answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/local/local.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

struct AnswerOptions {
  std::string model = "local";
  int64_t max_tokens = 512;
  float temperature = 0.7f;
};

// What an answer cost; -1: the server does not say.
struct AnswerCost {
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;
  int64_t output_tokens = -1;
  double ttft_seconds = -1;  // as it was seen here
  double total_seconds = 0;
};
// "1,204 prompt tokens, 1,152 of them cached (96 %); 87 tokens in 2.1 s, 41.4 tok/s"; empty:
// nothing is known.
std::string CostLine(const AnswerCost& cost);

// Answers one conversation after the other. An answer that `stop` ended is no error.
class Answerer {
 public:
  virtual ~Answerer() = default;
  using OnText = std::function<void(std::string_view)>;
  virtual Result<AnswerCost> Answer(const std::vector<protocol::Message>& messages,
                                    const OnText& on_text, const std::atomic<bool>& stop) = 0;
};

struct AnsweringServer {
  store::ServerAddress address;    // "http://127.0.0.1:8080"
  std::string authorization = {};  // the header's value; empty: none
};
// Over HTTP from a server.
std::unique_ptr<Answerer> MakeServerAnswerer(AnsweringServer server, AnswerOptions options);
// From an engine in this process. The provider outlives the answerer.
std::unique_ptr<Answerer> MakeLocalAnswerer(const provider::LocalProvider& provider,
                                            AnswerOptions options);

// Finds the text and the usage in the "data:" lines of a stream that arrives in any pieces.
class SseText {
 public:
  // kUnavailable: the server ended the stream with an error, whose message is the detail.
  Result<void> Push(std::string_view piece, const Answerer::OnText& on_text);
  // Its tokens, once the server has told them.
  const AnswerCost& cost() const { return cost_; }

 private:
  AnswerCost cost_;
  std::string pending_;  // an unfinished line
};

}  // namespace kvgate::cli
