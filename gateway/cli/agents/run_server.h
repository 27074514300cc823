// RunServer: the server that a run of an agent talks to: one that is named, the one that holds the
// data directory, or one that is started for the run. If the one that it found ends meanwhile (it
// was another run's), the next connection finds or starts another. Thread-safe.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "gateway/cli/agents/own_server.h"
#include "gateway/cli/server/server_target.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli::agents {

class RunServer {
 public:
  struct Options {
    server::TargetFlags target = {};
    std::filesystem::path directory = {};
    std::vector<std::string> serve_arguments = {};  // for a server of its own
    bool is_quiet = false;
  };
  // Finds nothing yet. Fails with kOverloaded if the system refuses a thread.
  static Result<std::unique_ptr<RunServer>> Open(Options options);
  // Stops a server of its own.
  ~RunServer();
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

  // Returns once the server is ready for requests, which may take minutes while a model loads.
  // Fails with kUnavailable if there is none and none can be started, and with kUnsupported for one
  // that speaks TLS, whose certificate agents do not trust.
  Result<void> Await();

  store::ServerAddress address() const;
  bool is_own() const;
  // Returns a connected socket of it. Fails as Await does.
  Result<int> Dial();

 private:
  explicit RunServer(Options options) : options_(std::move(options)) {}
  Result<void> Find();
  Result<void> StartOwn();
  void Keep();

  const Options options_;
  mutable std::mutex mutex_;  // guards the address and the server
  store::ServerAddress address_;
  std::unique_ptr<OwnServer> own_;
  // A server ends with the thread that has started it, so all are started by one that stays.
  std::mutex keeper_mutex_;
  std::condition_variable asked_;
  bool is_asked_ = false;
  bool stopping_ = false;
  Result<std::unique_ptr<OwnServer>> started_{nullptr};
  std::thread keeper_;
};

}  // namespace kvgate::cli::agents
