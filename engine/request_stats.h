// The statistics of a request so far, from the sequence that the engine works on. Engine thread
// only.
#pragma once

#include <chrono>

#include "engine/engine.h"
#include "engine/schedule/sequence.h"

namespace kvgate::engine {

// Returns 0 if `to` is not after `from`.
inline double Seconds(schedule::Clock::time_point from, schedule::Clock::time_point to) {
  return to > from ? std::chrono::duration<double>(to - from).count() : 0.0;
}

RequestStats StatsOf(const schedule::Sequence& sequence);

}  // namespace kvgate::engine
