// Exchange: one request of a client, from its beginning to the end of its answer, as its reader
// sees it. One thread at a time, but for what cancels it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sdk/src/transport/cancel.h"
#include "sdk/src/transport/channel.h"
#include "sdk/src/transport/transport.h"

namespace kvgate::sdk::transport {

class Exchange {
 public:
  Exchange(Transport& transport, Request request, const std::shared_ptr<Cancel>& cancel);
  // Ends it, if it is under way.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Channel& channel() { return *channel_; }
  const Channel& channel() const { return *channel_; }
  std::shared_ptr<Channel> shared_channel() const { return channel_; }

  // Waits for the whole answer; false: failure() says why there is none.
  bool ReadAll(std::string& body);
  // What came instead of a whole answer, or says that its status is an error.
  const Failure& failure() const { return failure_; }
  // Makes `failure` that of this answer, whose body has been read.
  void RefuseBy(std::string_view body);
  void Fail(Failure failure) { failure_ = std::move(failure); }

 private:
  const std::shared_ptr<Channel> channel_;
  Cancel::Watch watch_;
  Failure failure_;
};

}  // namespace kvgate::sdk::transport
