// TinyGateway: a gateway with a tiny model, through the SDK alone: in this process, and the same
// one at the other end of a wire.
#pragma once

#include <kvgate/client.h>
#include <kvgate/server.h>
#include <kvgate/session.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/temp_folder.h"

namespace kvgate::test {

// A model file that is made in some milliseconds: tests/gateway/runtime/tiny_model_file.cc, since
// no file that includes the SDK can include the inside of this tree.
void MakeTinyModelFile(const std::string& path, int context);

class TinyGateway {
 public:
  // `config` is what its configuration has beside the model and the data directory.
  explicit TinyGateway(const std::string& config = "", int context = 2048);
  // What is to be opened in the folder of another process, which owns it.
  static TinyGateway In(const std::filesystem::path& folder, const std::string& config) {
    return TinyGateway(folder, config, 0);
  }
  ~TinyGateway();
  TinyGateway(const TinyGateway&) = delete;
  TinyGateway& operator=(const TinyGateway&) = delete;

  // How it is opened, again too.
  OpenOptions Options(const std::string& api_key = "") const;
  Client& embedded() { return *embedded_; }
  const std::string& url() const { return url_; }
  // A client at the other end of a wire.
  Client Remote(ConnectOptions options = {}) const {
    return Client::Connect(url_, options).value();
  }
  void Close();
  const std::filesystem::path& folder() const { return folder_; }

 private:
  TinyGateway(std::filesystem::path folder, const std::string& config, int /*unused*/);

  std::filesystem::path folder_;
  std::optional<TempFolder> own_folder_;
  std::string config_;
  std::optional<Client> embedded_;
  std::optional<Server> server_;
  std::string url_;
};

}  // namespace kvgate::test
