// Task and kAwait, with the rules of coroutines: gateway/upstream/task.h.
#pragma once

#include "gateway/upstream/wire/task.h"

namespace kvgate::http {

using upstream::kAwait;
using upstream::Task;

}  // namespace kvgate::http
