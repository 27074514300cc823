// Server: the HTTP interface of a gateway in this process, for programs that want to serve too.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <kvgate/client.h>

namespace kvgate {
inline namespace v1 {

// The port of a gateway in this process. Its end closes it.
class Server {
 public:
  // The client must have been opened in this process.
  explicit Server(const Client& embedded) : client_(embedded.shared()) {}

  // Serves on "127.0.0.1:8080", port 0 picks one; returns the address, "http://127.0.0.1:8080".
  // Fails with kUnavailable if it is taken, and with kInvalidArgument if it needs a [[key]], or if
  // this server or the client's other one listens.
  Result<std::string> Listen(const std::string& address = "127.0.0.1:8080") {
    kvgate_server* server = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_listen(client_.get(), address.c_str(), &server, &error);
    if (status != KVGATE_OK) return detail::TakeError(status, error);
    server_.reset(server);
    return std::string(kvgate_server_url(server));
  }

  // Lets running answers end for at most this time. The client goes on.
  void Close(std::chrono::milliseconds drain = std::chrono::seconds(30)) {
    kvgate_server_close(server_.release(), static_cast<uint32_t>(drain.count()));
  }

 private:
  struct CloseNow {
    void operator()(kvgate_server* server) const { kvgate_server_close(server, 0); }
  };

  std::shared_ptr<kvgate_client> client_;
  std::unique_ptr<kvgate_server, CloseNow> server_;
};

}  // namespace v1
}  // namespace kvgate
