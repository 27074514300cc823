// A chat whose history the gateway keeps. Each line of standard input is sent alone, under the
// session's key; "/fork KEY" goes on with a copy, "/history" says what is kept. Run it again with
// the same data directory, and the conversation goes on.
//
//   printf 'I am Ada.\nWho am I?\n' | chat_session [MODEL.gguf | http://SERVER] [DATA_DIR]
#include <kvgate/session.h>

#include <iostream>
#include <string>

#include "example.h"

namespace {

// Prints an answer while it comes, and what of its prompt was read from the cache.
kvgate::Result<void> Print(kvgate::Stream answer) {
  for (const kvgate::Event& event : answer) {
    if (event.is_text()) std::cout << event.text << std::flush;
    if (event.kind == kvgate::Event::Kind::kUsage) {
      std::cout << "\n  [" << event.usage.prompt_tokens << " tokens of prompt, "
                << event.usage.cached_tokens << " from the cache]\n";
    }
  }
  return answer.status();
}

kvgate::Result<void> PrintHistory(const kvgate::Session& session) {
  const kvgate::Result<kvgate::Json> history = session.History();
  if (!history) return history.error();
  std::cout << "  [" << session.key() << ": " << history->Int("/turns") << " turns]\n";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  kvgate::Result<kvgate::Client> client = OpenClient(argc, argv);
  if (!client) return Fail(client.error());

  // What all requests of the session have in common.
  const kvgate::ChatRequest base{
      .messages = {kvgate::Message::System("You are a patient tutor. Answer in one sentence.")},
      .max_tokens = 24,
      .temperature = 0};
  kvgate::Session session = client->Session("tutor", base);

  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    std::cout << "> " << line << "\n";
    kvgate::Result<void> done;
    if (line == "/history") {
      done = PrintHistory(session);
    } else if (line.starts_with("/fork ")) {
      kvgate::Result<kvgate::Session> fork = session.Fork(line.substr(6));
      if (!fork) return Fail(fork.error());
      session = *fork;
      done = PrintHistory(session);
    } else {
      done = Print(session.Say(line));
    }
    if (!done) return Fail(done.error());
  }
  const kvgate::Result<void> done = PrintHistory(session);
  return done ? 0 : Fail(done.error());
}
