// Own data: a request for the gateway's own data (records, prefixes, stored responses, metrics).
// It owns its inputs, because a thread that waits for the disk may outlive the request. It knows no
// sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/service/service.h"

namespace kvgate::proxy::handler {

struct ServiceCall {
  service::Service& service;
  service::Prompts* prompts = nullptr;    // null: prompts are not examined
  session::Sessions* sessions = nullptr;  // null: none are kept
  session::prompts::NamedPrompts* named_prompts = nullptr;  // null: there are none
  std::shared_ptr<const request::Targets> targets = nullptr;
  Route route;
  request::RoutePlace place = {};
  std::string target = {};
  std::string body = {};
  access::Caller caller = {};
  std::string request_id = {};
  std::string accept_encoding = {};  // of the request's head, as the next one
  std::string if_none_match = {};
  // Returns true if the caller may use the model.
  std::function<bool(std::string_view)> may_use = [](std::string_view) { return true; };
  // Counts the steps done by a long call, so that the request waiting for it sees progress.
  using Steps = std::atomic<uint64_t>;
  std::shared_ptr<Steps> steps = std::make_shared<Steps>(0);
};

// The thread on which a call runs.
enum class CallPlace : uint8_t {
  kHere,   // on the event loop: it never blocks
  kKnown,  // on the event loop, after a bounded wait for fresh numbers of the stores
  kStore,  // on a thread that may wait for the disk
  kBulk,   // on a thread for long disk work
};
CallPlace PlaceOf(Route route);

// May block on the disk if PlaceOf returns kStore or kBulk.
request::Response Answer(const ServiceCall& call);

// Answers a request for the gateway's own data, on the threads that it needs. What counts against a
// key's limits has been counted by then.
Task<void> ServeOwnData(RequestContext& request);

// Waits for fresh numbers of the stores, for a second at most.
Task<void> RefreshNumbers(RequestContext& request);

// The gateway's own data.
const Handler& OwnData();
// The same; a request for it counts against the limits of its caller's key.
const Handler& CountedData();
// Stored responses and conversations: the gateway's own, or an upstream's, which made their ids.
const Handler& StoredData();

}  // namespace kvgate::proxy::handler
