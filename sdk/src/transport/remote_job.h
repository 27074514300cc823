// RemoteJob: a request that goes over the wire.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gateway/upstream/exchange.h"
#include "gateway/upstream/upstream.h"
#include "sdk/src/transport/answer_job.h"

namespace kvgate::sdk::transport {

class RemoteJob final : public AnswerJob {
 public:
  // `server` outlives the job. `base_path` stands before the request's path.
  RemoteJob(const Executor& executor, upstream::Upstream& server, std::string base_path,
            int retries, Request request);

 private:
  Task<void> Answer() override;
  void GiveUp() override;
  // One try. True: it is to be made again after `pause_`.
  Task<bool> Try(const std::string& head);
  Task<void> Receive();
  std::string HeadOf();
  bool MayRetry(const Error& error) const;
  // How long the server wants to be left alone; false if it has not refused for want of room.
  bool IsRefusedForNow();
  void ArmTick();

  upstream::Upstream& server_;
  const std::string base_path_;
  int retries_left_;
  std::chrono::milliseconds pause_;
  std::unique_ptr<upstream::Exchange> exchange_;
  upstream::wire::Timer tick_;
};

}  // namespace kvgate::sdk::transport
