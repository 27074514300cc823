// EventStream: the answer of a provider as it arrives. One producer, which never waits for the
// reader, and one reader, which never waits for the producer: it takes what is there and is woken
// when there is more. Every provider, local or upstream, yields one of these.
#pragma once

#include <vector>

#include "gateway/protocol/form/completion.h"

namespace kvgate::provider {

class EventStream {
 public:
  // Stops the work when it has not finished: nobody can read its answer any more. After the
  // destructor the wake function is never called again.
  virtual ~EventStream() = default;

  // What has arrived since the last call, neighbouring deltas merged. A FinishEvent comes exactly
  // once, as the very last event. Empty: nothing yet; the wake function will be called.
  virtual std::vector<protocol::CompletionEvent> Take() = 0;
  // Asks for an early end; the stream still ends with a FinishEvent (kCancelled).
  virtual void Cancel() = 0;
};

}  // namespace kvgate::provider
