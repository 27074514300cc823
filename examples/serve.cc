// A program that serves the HTTP interface of the gateway it embeds, and asks it itself too.
//
//   serve [MODEL.gguf] [DATA_DIR] [ADDRESS:PORT]     until its standard input ends
#include <kvgate/server.h>

#include <iostream>
#include <string>

#include "example.h"

int main(int argc, char** argv) {
  // The library writes nowhere by itself. Its log may be had.
  kvgate_set_log(
      KVGATE_LOG_WARNING,
      [](void*, kvgate_log_level, const char* line) { std::fprintf(stderr, "%s\n", line); },
      nullptr);
  kvgate::Result<kvgate::Client> client = OpenClient(argc, argv);
  if (!client) return Fail(client.error());

  kvgate::Server server(*client);
  const kvgate::Result<std::string> url = server.Listen(argc > 3 ? argv[3] : "127.0.0.1:0");
  if (!url) return Fail(url.error());
  std::cout << "serving " << *url << "/v1 until the standard input ends" << std::endl;

  // Requests from outside and from this program share engine, cache and sessions.
  const kvgate::Result<std::string> text =
      client->Generate("Say something.", {.max_tokens = 8, .temperature = 0});
  if (!text) return Fail(text.error());
  std::cout << "asked from inside: " << *text << std::endl;

  for (std::string line; std::getline(std::cin, line);) {
  }
  server.Close(std::chrono::seconds(5));
  const kvgate::Result<kvgate::Json> stats = client->Stats();
  if (!stats) return Fail(stats.error());
  std::cout << "served " << stats->Int("/ledger/totals/requests") << " requests\n";
  return 0;
}
