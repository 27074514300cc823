// OwnServer: a `kvgate serve` that lives as long as a run of an agent needs it: a process of its
// own on a free port of 127.0.0.1, which Ctrl-C at the terminal does not reach and which ends with
// this process, however that ends. One thread at a time.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvgate::cli::agents {

class OwnServer {
 public:
  struct Options {
    std::vector<std::string> arguments = {};  // of `serve`, without --listen
    std::filesystem::path log_file = {};      // its folder is made with mode 0700 if it is missing
    bool is_quiet = false;                    // says nothing while a model loads
  };
  // Returns once it listens, which may take minutes while a model loads. Fails with kUnavailable if
  // it ends before; the detail has the last line of its log. REQUIRES: the calling thread lives as
  // long as the server, since its end would end that.
  static Result<std::unique_ptr<OwnServer>> Start(const Options& options);
  // Stops it as Stop does.
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  // Asks it to end and waits until it has: running answers of others get server.drain_seconds. A
  // Ctrl-C (blocked by the caller) ends that wait.
  void Stop();

 private:
  explicit OwnServer(pid_t process, int output) : process_(process), output_(output) {}

  pid_t process_;
  int output_;  // the end of its standard output that is read here
};

}  // namespace kvgate::cli::agents
