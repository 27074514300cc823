#include "gateway/upstream/channel.h"

#include <poll.h>

namespace kvgate::upstream {

bool Channel::IsQuiet() {
  // TLS 1.3 sends tickets whenever it likes, but they were read with the first answer.
  pollfd state{.fd = socket_.native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) == 0;
}

}  // namespace kvgate::upstream
