// A program that embeds the engine and computes its long prompt before the first user comes. The
// prefix is pinned: it stays on disk, so that the next start reads it instead of computing it.
//
//   warm_prefix [MODEL.gguf | http://SERVER] [DATA_DIR]
#include <chrono>
#include <iostream>
#include <string>

#include "example.h"

namespace {

using Clock = std::chrono::steady_clock;

// A handbook of some two thousand tokens, as a support desk would have one.
std::string Handbook() {
  std::string text = "You answer questions about the handbook of a small library.\n";
  for (int rule = 1; rule <= 80; ++rule) {
    text += "Rule " + std::to_string(rule) + ": a book of shelf " + std::to_string(rule * 7 % 40) +
            " may be kept for " + std::to_string(rule % 9 + 7) + " days.\n";
  }
  return text;
}

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  kvgate::Result<kvgate::Client> client = OpenClient(argc, argv);
  if (!client) return Fail(client.error());

  kvgate::ChatRequest request{
      .messages = {kvgate::Message::System(Handbook())}, .max_tokens = 16, .temperature = 0};
  const auto warm_begin = Clock::now();
  const kvgate::Result<kvgate::Json> pinned = client->Pin("handbook", request);
  if (!pinned) return Fail(pinned.error());
  std::cout << "warm: " << pinned->Int("/tokens") << " tokens, " << pinned->Int("/cached_tokens")
            << " found, " << pinned->Int("/computed_tokens") << " computed, "
            << MillisecondsSince(warm_begin) << " ms\n";
  if (!pinned->Bool("/pinned")) std::cout << "it could not be kept: see the log\n";

  // The first user's question. Only its own few tokens are left to compute.
  request.messages.push_back(kvgate::Message::User("How long may I keep a book of shelf 14?"));
  request.explain = true;
  const auto ask_begin = Clock::now();
  double first_ms = 0;
  kvgate::Stream answer = client->Chat(request);
  for (const kvgate::Event& event : answer) {
    if (event.is_text() && first_ms == 0) first_ms = MillisecondsSince(ask_begin);
    if (event.is_text()) std::cout << event.text << std::flush;
    if (event.kind == kvgate::Event::Kind::kUsage) {
      std::cout << "\nquestion: " << event.usage.prompt_tokens << " tokens, "
                << event.usage.cached_tokens << " from the cache, first text after " << first_ms
                << " ms\n";
    }
  }
  if (!answer.status()) return Fail(answer.status().error());

  const kvgate::Result<kvgate::Answer> kept = client->Call("GET", "/kvgate/v1/prefixes");
  if (!kept) return Fail(kept.error());
  for (const kvgate::Json& prefix : kept->json().Items("/data")) {
    if (!prefix.Bool("/pinned")) continue;
    std::cout << "pinned: " << prefix.String("/name") << ", " << prefix.Int("/tokens")
              << " tokens, " << prefix.Int("/bytes") << " bytes\n";
  }
  return 0;
}
