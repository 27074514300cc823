// WriteAll: writes buffers to a stream and waits only if it must. Most writes of a gateway fit into
// the socket's buffer, so nothing is queued and the coroutine is not suspended.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <string_view>
#include <utility>

#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream::wire {

using WriteParts = std::array<std::string_view, 3>;
using WriteBuffers = std::array<boost::asio::const_buffer, 3>;

// Bytes handed to the kernel at once; Asio's own limit is 64 KiB, which costs a system call for
// each.
inline constexpr size_t kWrittenAtOnce = size_t{1} << 20;

// Returns the number of bytes that the socket takes now; also 0 on an error, which the following
// asynchronous write reports.
size_t SendNow(int socket, const WriteBuffers& buffers);

inline WriteBuffers BuffersOf(const WriteParts& parts) {
  WriteBuffers buffers;
  for (size_t i = 0; i < parts.size(); ++i) buffers[i] = {parts[i].data(), parts[i].size()};
  return buffers;
}

// Writes without waiting and removes the written bytes from `parts`; returns true if that was all.
// Besides Asio's operations `Stream` has TryWrite(buffers): SendNow, or 0 if bytes do not go to the
// socket unchanged, as with TLS.
template <typename Stream>
bool WriteNow(Stream& stream, WriteParts& parts) {
  size_t written = stream.TryWrite(BuffersOf(parts));
  bool complete = true;
  for (std::string_view& part : parts) {
    const size_t taken = std::min(written, part.size());
    part.remove_prefix(taken);
    written -= taken;
    complete = complete && part.empty();
  }
  return complete;
}

// Writes the bytes that WriteNow left; the handler gets (error_code, size). The parts' bytes must
// live until then or until the stream is closed.
template <typename Stream, typename Token>
auto WriteRest(Stream& stream, const WriteParts& parts, Token&& token) {
  const auto at_once = [](const boost::system::error_code& code, size_t) {
    return code ? 0 : kWrittenAtOnce;
  };
  return boost::asio::async_write(stream, BuffersOf(parts), at_once, std::forward<Token>(token));
}

// The parts' bytes must live until it returns. Returns false if the connection is gone.
template <typename Stream>
Task<bool> WriteAll(Stream& stream, WriteParts parts) {
  if (WriteNow(stream, parts)) co_return true;
  auto [code, size] = co_await WriteRest(stream, parts, kAwait);
  co_return !code;
}

}  // namespace kvgate::upstream::wire
