// Conversation: a talk with a model from the command line: the turns so far, and who answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/completion.h"
#include "gateway/provider/local.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

struct AnswerOptions {
  std::string model = "local";
  int64_t max_tokens = 512;
  float temperature = 0.7f;
};

// Answers one conversation after the other. An answer that `stop` ended is no error.
class Answerer {
 public:
  virtual ~Answerer() = default;
  using OnText = std::function<void(std::string_view)>;
  virtual Result<void> Answer(const std::vector<protocol::Message>& messages, const OnText& on_text,
                              const std::atomic<bool>& stop) = 0;
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

// Finds the text of each "data:" line of a stream that arrives in any pieces.
class SseText {
 public:
  // kUnavailable: the server ended the stream with an error, whose message is the detail.
  Result<void> Push(std::string_view piece, const Answerer::OnText& on_text);

 private:
  std::string pending_;  // an unfinished line
};

}  // namespace kvgate::cli
