// HostedServer: a server on a host of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "gateway/http/server.h"
#include "gateway/proxy/host/host.h"

namespace kvgate::http {

struct HostedServer {
  explicit HostedServer(service::Service& service, const ServerOptions& options = {},
                        const proxy::host::HostOptions& host_options = {}) {
    auto opened_host = proxy::host::Host::Open(host_options, service);
    EXPECT_TRUE(opened_host) << opened_host.error().ToString();
    host = std::move(*opened_host);
    auto opened = Server::Open(options, *host);
    EXPECT_TRUE(opened) << opened.error().ToString();
    server = std::move(*opened);
  }
  std::unique_ptr<proxy::host::Host> host;
  std::unique_ptr<Server> server;
};

}  // namespace kvgate::http
