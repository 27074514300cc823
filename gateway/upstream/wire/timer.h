// Timer: Asio's timer by the clock of base/clock.h, so that a test that simulates time decides when
// a wait ends. Asio looks at the clock when its own timer runs out, which it sets by the time left
// when the wait began; whoever moves the clock therefore begins a wait that is due already.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>

#include "base/clock.h"

namespace kvgate::upstream::wire {

using Timer = boost::asio::basic_waitable_timer<SteadyClock>;

}  // namespace kvgate::upstream::wire
