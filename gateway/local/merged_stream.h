// MergedStream: several answers of one request as one EventStream. Each answer is a stream of its
// own; here its events get the index of its choice. One that ends does not end the others; an error
// of one, a cancellation included, ends all.
#pragma once

#include <memory>
#include <vector>

#include "gateway/local/event_stream.h"

namespace kvgate::provider {

// The streams in the order of the choices: all answers to the first prompt, then to the next.
// Whoever is woken for one of them takes from the merged one. How the statistics add up:
// FinishEvent in completion.h.
// REQUIRES: a stream at least, and their number a multiple of num_answers, which is at least 1.
std::unique_ptr<EventStream> MergeStreams(std::vector<std::unique_ptr<EventStream>> choices,
                                          int num_answers);

}  // namespace kvgate::provider
