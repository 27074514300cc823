// Removes thinking from a request whose prefix may not be the one that the thinking was made for.
// A provider that binds thinking to the prefix refuses it there; a request without any of it is
// always accepted. Pure; may be called from any thread.
#pragma once

#include <vector>

#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::rewrite {

// Returns the edits that cut every thinking block of an assistant's message. A message that holds
// nothing else is cut as a whole, because providers refuse empty ones.
std::vector<parse::Edit> RemoveThinking(const parse::RequestLayout& layout);

}  // namespace kvgate::prompt::rewrite
