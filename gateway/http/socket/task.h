// Task and kAwait, with the rules of coroutines: gateway/upstream/wire/task.h.
#pragma once

#include "gateway/upstream/wire/task.h"

namespace kvgate::http::socket {

using upstream::wire::kAwait;
using upstream::wire::Task;

}  // namespace kvgate::http::socket
