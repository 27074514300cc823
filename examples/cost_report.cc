// What requests cost, and what they would have cost without a cache: from the ledger, which keeps a
// record of each of them.
//
//   cost_report [http://SERVER | kvgate.toml] [DATA_DIR]
//
// Without arguments a gateway of this process is asked some questions first, at made-up prices.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <string>

#include "example.h"

namespace {

using kvgate::Result;

// Prices are dollars for a million tokens.
constexpr char kPrices[] = R"({"date": "2026-11-01", "providers": {"local": [
  {"models": ["*"], "input": 2, "output": 8, "cache_read_factor": 0.1, "cache_write_factor": 1,
   "source": "made up, for an example", "date": "2026-11-01"}]}})";

Result<kvgate::Client> OpenPriced() {
  std::ofstream("kvgate-prices.json") << kPrices;
  return kvgate::Client::Open({.config_toml = "[engine]\nkv_memory = \"256MiB\"\n"
                                              "[ledger]\nprices = \"kvgate-prices.json\"\n",
                               .data_dir = "kvgate-data",
                               .needs_disk = true});
}

// Three questions about one long text, so that there is something to report.
Result<void> Ask(const kvgate::Client& client) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Clause " + std::to_string(i) + " binds both sides. ";
  for (const char* question : {"Who is bound?", "By which clauses?", "Since when?"}) {
    kvgate::Stream answer =
        client.Chat({.messages = {kvgate::Message::System(text), kvgate::Message::User(question)},
                     .max_tokens = 8});
    const Result<kvgate::Reply> reply = answer.Collect();
    if (!reply) return reply.error();
    const Result<kvgate::Json> record = RecordOf(client, reply->request_id);
    if (!record) return record.error();
  }
  return {};
}

double Dollars(const kvgate::Json& json, const std::string& pointer) {
  return static_cast<double>(json.Int(pointer)) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string given = argc > 1 ? argv[1] : "";
  Result<kvgate::Client> client =
      given.ends_with(".toml")
          ? kvgate::Client::Open({.config_file = given, .data_dir = argc > 2 ? argv[2] : ""})
          : (given.empty() ? OpenPriced() : OpenClient(argc, argv));
  if (!client) return Fail(client.error());
  if (given.empty()) {
    const Result<void> asked = Ask(*client);
    if (!asked) return Fail(asked.error());
  }

  const Result<kvgate::Answer> page = client->Call("GET", "/kvgate/v1/requests?limit=20");
  if (!page) return Fail(page.error());
  std::cout << std::fixed << std::setprecision(6)
            << "model                    input   cached   output      dollars  without a cache\n";
  for (const kvgate::Json& record : page->json().Items("/data")) {
    std::cout << std::left << std::setw(22) << record.String("/model") << std::right << std::setw(8)
              << record.Int("/usage/input_tokens") << std::setw(9)
              << record.Int("/usage/cache_read_tokens") << std::setw(9)
              << record.Int("/usage/output_tokens") << std::setw(13)
              << Dollars(record, "/cost/nanodollars") << std::setw(17)
              << Dollars(record, "/cost/uncached_nanodollars") << "\n";
  }
  const Result<kvgate::Json> stats = client->Stats();
  if (!stats) return Fail(stats.error());
  const std::string totals = "/ledger/totals/";
  std::cout << stats->Int(totals + "requests") << " requests in all: $"
            << Dollars(*stats, totals + "nanodollars") << ", without a cache $"
            << Dollars(*stats, totals + "uncached_nanodollars") << "\n";
  return 0;
}
