// ServiceCall: a request for what the gateway keeps or tells, as data of its own: a thread that
// waits for a disk may outlive whoever asked. It knows no sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http/message/response.h"
#include "gateway/http/router.h"
#include "gateway/service/service.h"

namespace kvgate::http {

struct ServiceCall {
  service::Service& service;
  RouteMatch match;
  std::string target = {};
  std::string body = {};
  service::Caller caller = {};
  std::string request_id = {};
  // Which models the caller may use.
  std::function<bool(std::string_view)> may_use = [](std::string_view) { return true; };
  // Of what takes long: how far it has come, told to whoever waits for it.
  using Steps = std::atomic<uint64_t>;
  std::shared_ptr<Steps> steps = std::make_shared<Steps>(0);
};

// Where a call runs.
enum class CallPlace : uint8_t {
  kHere,   // on the event loop: it waits for nothing
  kKnown,  // there, too, after the stores have been asked, if they answer soon
  kStore,  // it waits for the disk
  kBulk,   // and for long
};
CallPlace PlaceOf(Route route);

// May wait for the disk where PlaceOf says so.
Response Answer(const ServiceCall& call);

}  // namespace kvgate::http
