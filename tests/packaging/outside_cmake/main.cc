// A program of somebody else: a gateway in the process, with a model and a data directory.
//
// It has things of its own that are called like some inside the library. Where the library is
// linked statically, neither side may get the other's.
#include <kvgate/client.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvgate {
// base/base64.h has it, too.
std::string EncodeBase64(std::string_view) { return "ours"; }
}  // namespace kvgate

namespace {

// The same instances of templates are in the library, and each side throws through its own.
bool ThrowsAndCatches() {
  try {
    return nlohmann::json::parse("{\"a\": [1, 2").empty();
  } catch (const nlohmann::json::parse_error&) {
    return true;
  }
}

int Fail(const char* doing, const kvgate::Error& error) {
  std::fprintf(stderr, "%s: %s\n", doing, error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !ThrowsAndCatches() || kvgate::EncodeBase64("x") != "ours") return 2;
  // The parser of the configuration throws inside the library.
  const auto refused = kvgate::Client::Open({.config_toml = "listen = ["});
  if (refused || refused.error().status != kvgate::Status::kInvalidArgument) return 3;

  auto client = kvgate::Client::Open({.config_toml = "[engine]\nkv_memory = \"64MiB\"\n",
                                      .model = argv[1],
                                      .data_dir = argv[2],
                                      .needs_disk = true});
  if (!client) return Fail("opening", client.error());
  kvgate::ChatRequest request;
  request.max_tokens = 4;
  const auto text = client->Generate("Say h\u00e9 \U0001F600", request);
  if (!text) return Fail("generating", text.error());
  if (!ThrowsAndCatches()) return 4;
  std::printf("kvgate %s says %zu bytes\n", kvgate_version(), text->size());
  return 0;
}
