// MergedStream presents several answers of one request as one EventStream. Each answer is a stream
// of its own, whose events get the index of its choice. The end of one answer does not end the
// others, but an error or cancellation of one ends all.
#pragma once

#include <memory>
#include <vector>

#include "gateway/local/event_stream.h"

namespace kvgate::local {

// The streams come in the order of the choices: all answers to the first prompt, then those to the
// next. A wake-up for any of them means that the merged stream has events. FinishEvent in
// completion.h says how the statistics are summed. REQUIRES: at least one stream, num_answers >= 1,
// and a number of streams that is a multiple of num_answers.
std::unique_ptr<EventStream> MergeStreams(std::vector<std::unique_ptr<EventStream>> choices,
                                          int num_answers);

}  // namespace kvgate::local
