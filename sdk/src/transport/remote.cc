#include "sdk/src/transport/remote.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "gateway/config/config.h"
#include "gateway/proxy/host/loops.h"
#include "gateway/proxy/work/background.h"
#include "gateway/upstream/upstream.h"
#include "sdk/src/transport/remote_job.h"

namespace kvgate::sdk::transport {
namespace {

// An answer may be computed for hours; its end is the caller's to set.
constexpr int kNoTimeout = 7 * 24 * 3600;

class Remote final : public Transport {
 public:
  Remote(const RemoteOptions& options, std::string base_path,
         std::unique_ptr<upstream::Upstream> server)
      : authorization_(options.api_key.empty() ? "" : "Bearer " + options.api_key),
        base_path_(std::move(base_path)),
        retries_(options.retries),
        server_(std::move(server)) {
    loops_.Start();
  }

  ~Remote() override {
    requests_.EndAll();
    loops_.Flush();
    loops_.Stop();
  }

  std::shared_ptr<Channel> Start(Request request) override {
    if (!authorization_.empty()) request.headers.emplace_back("Authorization", authorization_);
    const AnswerJob::Executor executor = loops_.Next().get_executor();
    const auto job =
        std::make_shared<RemoteJob>(executor, *server_, base_path_, retries_, std::move(request));
    return Begin(job, requests_);
  }

  Result<std::string> Listen(const std::string& /*address*/) override {
    return MakeError(ErrorCode::kUnsupported, "sdk",
                     "this client is connected to another server; one that was opened can listen");
  }
  void StopListening(std::chrono::milliseconds /*drain*/) override {}

 private:
  const std::string authorization_;  // the header's value; empty: none is sent
  const std::string base_path_;
  const int retries_;
  // Kept connections must be destroyed before their loop.
  proxy::host::Loops loops_{1, "answers of servers"};
  const std::unique_ptr<upstream::Upstream> server_;
  proxy::work::Background requests_{kRequestsMax};
};

}  // namespace

Result<std::unique_ptr<Transport>> ConnectRemote(const RemoteOptions& options) {
  KVGATE_TRY(const config::Url url, config::ParseUrl(options.url));
  std::string base_path = url.path;
  if (std::string_view(base_path).ends_with("/v1")) base_path.resize(base_path.size() - 3);
  config::UpstreamConfig config;
  config.name = "kvgate";
  config.base_url = options.url;
  config.ca_file = options.ca_file;
  config.connect_timeout_ms = static_cast<int>(options.connect_timeout.count());
  config.first_byte_timeout_seconds = kNoTimeout;
  config.idle_timeout_seconds = kNoTimeout;
  config.retry = "connect";
  config.retries = 0;  // this transport retries itself
  config.breaker_failures = 0;
  KVGATE_TRY(auto server, upstream::Upstream::Open(config, upstream::wire::ProcessEnvironment));
  return std::make_unique<Remote>(options, std::move(base_path), std::move(server));
}

}  // namespace kvgate::sdk::transport
