// Answers a request for embeddings with the vectors of the local model.
#pragma once

#include "gateway/proxy/request/request_context.h"

namespace kvgate::proxy::handler::embedding {

// Admits the request, waits for its vectors and sends them; refuses it in any other case. What is
// left of it is given up if the client leaves. REQUIRES: the local model has loaded, and the body
// has been scanned.
request::Task<void> AnswerLocally(request::RequestContext& request);

}  // namespace kvgate::proxy::handler::embedding
