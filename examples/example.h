// What the examples share: how they get their client, `EXAMPLE [MODEL.gguf | http://SERVER]
// [DATA_DIR]`, how they end on an error, and how they find the record of a request.
#pragma once

#include <kvgate/client.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

// An address is a server, whose key is in $KVGATE_API_KEY. Anything else is a gateway in this
// process: the model of that path, or without one the small model that kvgate brings along.
inline kvgate::Result<kvgate::Client> OpenClient(int argc, char** argv) {
  const std::string target = argc > 1 ? argv[1] : "";
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const char* key = std::getenv("KVGATE_API_KEY");
    return kvgate::Client::Connect(target, {.api_key = key == nullptr ? "" : key});
  }
  return kvgate::Client::Open({.config_toml = "[engine]\nkv_memory = \"256MiB\"\n",
                               .model = target,
                               .data_dir = argc > 2 ? argv[2] : "kvgate-data",
                               .needs_disk = true});
}

// Says why, on standard error; returns the exit status.
inline int Fail(const kvgate::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.ToString().c_str());
  if (!error.field.empty()) std::fprintf(stderr, "field: %s\n", error.field.c_str());
  return 1;
}

// What the ledger says of a request. It is written down within a second after the answer.
inline kvgate::Result<kvgate::Json> RecordOf(const kvgate::Client& client,
                                             const std::string& request_id) {
  for (int tries = 1;; ++tries) {
    const kvgate::Result<kvgate::Answer> record =
        client.Call("GET", "/kvgate/v1/requests/" + request_id);
    if (record) return record->json();
    if (record.error().status != kvgate::Status::kNotFound || tries == 200) return record.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}
