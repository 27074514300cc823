#include "gateway/upstream/wire/channel.h"

#include <poll.h>

namespace kvgate::upstream::wire {

bool Channel::IsQuiet() {
  // TLS 1.3 may send session tickets unasked, but those were read with the first answer.
  pollfd state{.fd = socket_.native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) == 0;
}

}  // namespace kvgate::upstream::wire
