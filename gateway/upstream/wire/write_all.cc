#include "gateway/upstream/wire/write_all.h"

#include <sys/socket.h>
#include <sys/uio.h>

namespace kvgate::upstream::wire {

size_t SendNow(int socket, const WriteBuffers& buffers) {
  std::array<iovec, std::tuple_size_v<WriteBuffers>> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i] = {.iov_base = const_cast<void*>(buffers[i].data()), .iov_len = buffers[i].size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? 0 : static_cast<size_t>(sent);
}

}  // namespace kvgate::upstream::wire
