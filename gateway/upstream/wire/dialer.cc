#include "gateway/upstream/wire/dialer.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>

namespace kvgate::upstream::wire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

Error Failed(std::string detail) {
  return MakeError(ErrorCode::kUnavailable, "upstream", std::move(detail));
}

}  // namespace

Task<Result<void>> TcpDialer::Dial(Channel& channel, SteadyClock::time_point deadline) {
  const Result<NameLookup::Endpoints> endpoints = co_await lookup_.Find(channel, deadline);
  if (!endpoints) {
    co_return Failed(fmt::format("its host name cannot be resolved: {}", endpoints.error().detail));
  }
  boost::system::error_code last = asio::error::host_not_found;
  for (const tcp::endpoint& endpoint : *endpoints) {
    channel.Close();
    auto [code] = co_await channel.socket().async_connect(endpoint, kAwait);
    last = code;
    if (!code) {
      boost::system::error_code ignored;
      channel.socket().set_option(tcp::no_delay(true), ignored);
      co_return Result<void>();
    }
    if (code == asio::error::operation_aborted) break;
  }
  co_return Failed(fmt::format("{} cannot be reached: {}", subject_, last.message()));
}

}  // namespace kvgate::upstream::wire
