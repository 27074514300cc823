// WriteAll: writes buffers to a stream, waiting as little as can be. Most of what a gateway writes
// fits into the socket's buffer: then nothing is queued, and the coroutine is not suspended.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <string_view>

#include "gateway/upstream/task.h"

namespace kvgate::upstream {

using WriteParts = std::array<std::string_view, 3>;
using WriteBuffers = std::array<boost::asio::const_buffer, 3>;

// Handed to the kernel at once; Asio's own bound is 64 KiB, a system call for each.
inline constexpr size_t kWrittenAtOnce = size_t{1} << 20;

// What the socket takes now; 0 also where it fails: whoever then waits for it is told why.
size_t SendNow(int socket, const WriteBuffers& buffers);

// `Stream` has, beside Asio's, TryWrite(buffers): SendNow, or 0 where bytes do not go to the socket
// as they are. The parts live until it returns. False: the connection is gone.
template <typename Stream>
Task<bool> WriteAll(Stream& stream, WriteParts parts) {
  namespace asio = boost::asio;
  const auto buffers = [&parts] {
    WriteBuffers all;
    for (size_t i = 0; i < parts.size(); ++i) all[i] = {parts[i].data(), parts[i].size()};
    return all;
  };
  size_t written = stream.TryWrite(buffers());
  bool complete = true;
  for (std::string_view& part : parts) {
    const size_t taken = std::min(written, part.size());
    part.remove_prefix(taken);
    written -= taken;
    complete = complete && part.empty();
  }
  if (complete) co_return true;
  const auto at_once = [](const boost::system::error_code& code, size_t) {
    return code ? 0 : kWrittenAtOnce;
  };
  auto [code, size] = co_await asio::async_write(stream, buffers(), at_once, kAwait);
  co_return !code;
}

}  // namespace kvgate::upstream
