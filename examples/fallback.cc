// Two upstreams with a fallback, in this process: no gateway has to be started in front of them.
// A provider that refuses or cannot be reached is passed over until the first byte has come.
//
//   fallback [URL1 URL2 [MODEL]]    two OpenAI-compatible providers; their key is in $PROVIDER_KEY
//
// Without arguments the first is an address where nothing listens, and the second another gateway
// of this program with its built-in model.
#include <kvgate/server.h>

#include <iostream>
#include <optional>
#include <string>

#include "example.h"

namespace {

std::string Upstream(const std::string& name, const std::string& url) {
  return "[[upstream]]\nname = \"" + name +
         "\"\ndialect = \"openai\"\nbase_url = " + kvgate::Quote(url) + "\nmodels = []\n";
}

// The whole configuration: what kvgate.toml would say.
std::string Config(const std::string& first, const std::string& second, const std::string& model) {
  return Upstream("first", first) + Upstream("second", second) +
         "[[route]]\nmodels = [\"assistant\"]\ntargets = [" + kvgate::Quote("first/" + model) +
         "]\nfallback = [" + kvgate::Quote("second/" + model) + "]\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string first = "http://127.0.0.1:9/v1";  // "discard": nothing listens there
  std::string second;
  std::optional<kvgate::Result<kvgate::Client>> spare;
  std::optional<kvgate::Server> server;
  if (argc > 2) {
    first = argv[1];
    second = argv[2];
  } else {
    char* no_arguments[] = {argv[0], nullptr};
    spare = OpenClient(1, no_arguments);
    if (!*spare) return Fail(spare->error());
    server.emplace(**spare);
    const kvgate::Result<std::string> url = server->Listen("127.0.0.1:0");
    if (!url) return Fail(url.error());
    second = *url + "/v1";
  }

  const char* key = std::getenv("PROVIDER_KEY");
  kvgate::Result<kvgate::Client> client =
      kvgate::Client::Open({.config_toml = Config(first, second, argc > 3 ? argv[3] : "local"),
                            .data_dir = "kvgate-data-fallback",
                            .api_key = key == nullptr ? "none" : key,
                            .needs_disk = true});
  if (!client) return Fail(client.error());

  for (int turn = 1; turn <= 3; ++turn) {
    const kvgate::ChatRequest request{
        .model = "assistant",
        .messages = {kvgate::Message::User("Question " + std::to_string(turn))},
        .max_tokens = 12};
    const kvgate::Result<kvgate::Reply> reply = client->Chat(request).Collect();
    if (!reply) return Fail(reply.error());
    // The request's record says who answered.
    const kvgate::Result<kvgate::Json> record = RecordOf(*client, reply->request_id);
    if (!record) return Fail(record.error());
    std::cout << "question " << turn << ", answered by " << record->String("/upstream") << ": "
              << reply->text << "\n";
  }
  const kvgate::Result<kvgate::Json> stats = client->Stats();
  if (!stats) return Fail(stats.error());
  std::cout << "answered by the second one so far: "
            << stats->Int("/ledger/totals/by_upstream/second/requests") << "\n";
  return 0;
}
