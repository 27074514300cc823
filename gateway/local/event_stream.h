// An EventStream is a provider's answer as it arrives. It has one producer and one reader, and
// neither waits for the other: the reader takes what is there, and is woken when there is more.
// Every provider, local or upstream, yields one.
#pragma once

#include <vector>

#include "gateway/dialect/form/completion.h"

namespace kvgate::local {

class EventStream {
 public:
  // Stops unfinished work, because nobody can read its answer any more. After the destructor, the
  // wake function is never called again.
  virtual ~EventStream() = default;

  // Returns what has arrived since the last call, with neighbouring deltas merged. A FinishEvent
  // comes exactly once, as the last event. If the result is empty, the wake function will be called
  // later.
  virtual std::vector<dialect::form::CompletionEvent> Take() = 0;
  // Asks for an early end; the stream still ends with a FinishEvent (kCancelled).
  virtual void Cancel() = 0;
};

}  // namespace kvgate::local
