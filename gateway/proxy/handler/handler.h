// Handler: what answers the requests of a route. The router's table names one for each.
#pragma once

#include "gateway/proxy/request/request_context.h"

namespace kvgate::proxy::handler {

using request::RequestContext;
using request::Task;

class Handler {
 public:
  virtual ~Handler() = default;
  // Answers the request through its sink. Its caller has been let in, and its body has been read if
  // the route takes one.
  virtual Task<void> Serve(RequestContext& request) const = 0;
};

// A model generates an answer, or counts the tokens of its prompt: the local one or an upstream's.
const Handler& Generation();
// The local model for embeddings answers what names it, or no model; else an upstream, if there is
// one.
const Handler& Embeddings();
// Paths that are none of the gateway's, for upstreams that take them.
const Handler& UnknownPath();
// One model, of the gateway or of an upstream; and the list of all of them.
const Handler& OneModel();
const Handler& ModelList();
// Prefixes that are computed ahead, and those that come and go as files.
const Handler& WarmPrefix();
const Handler& ExportPrefix();
const Handler& ImportPrefix();
// A session is folded into a summary now.
const Handler& CompactSession();
// Facts that a session's model finds in its conversation become its memory.
namespace extraction {
const Handler& ExtractMemory();
}
// Records as they are added, and numbers each second, for as long as the client reads.
const Handler& Events();
// How a request for an upstream would be treated.
const Handler& Explanation();

}  // namespace kvgate::proxy::handler
