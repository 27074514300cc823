#include "tests/sdk/tiny_gateway.h"

namespace kvgate::test {

TinyGateway::TinyGateway(std::filesystem::path folder, const std::string& config, int /*unused*/)
    : folder_(std::move(folder)),
      config_("[engine]\ndevice = \"cpu\"\nthreads = 1\nkv_memory = \"16MiB\"\n" + config) {}

TinyGateway::TinyGateway(const std::string& config, int context) : TinyGateway({}, config, 0) {
  folder_ = own_folder_.emplace().path();
  MakeTinyModelFile((folder_ / "tiny.gguf").string(), context);
  embedded_ = Client::Open(Options()).value();
  server_.emplace(*embedded_);
  url_ = server_->Listen("127.0.0.1:0").value();
}

TinyGateway::~TinyGateway() { Close(); }

OpenOptions TinyGateway::Options(const std::string& api_key) const {
  return {.config_toml = config_,
          .model = (folder_ / "tiny.gguf").string(),
          .data_dir = (folder_ / "data").string(),
          .api_key = api_key,
          .needs_disk = true};
}

void TinyGateway::Close() {
  server_.reset();
  embedded_.reset();
}

}  // namespace kvgate::test
