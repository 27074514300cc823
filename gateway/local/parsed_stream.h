// ParsedStream: an answer's text, taken apart as its model's family writes it: reasoning, text and
// calls of tools become deltas of their own kinds. Each choice has one of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/reply_parser.h"
#include "gateway/protocol/form/client_calls.h"
#include "gateway/local/event_stream.h"

namespace kvgate::provider {

struct ParsedStreamOptions {
  reply::ReplyParserOptions parser;
  // How the ids of calls begin where the model gives none.
  std::string_view id_prefix = "call_";
  int id_length =
      0;  // of such an id, without the prefix, which then is left out; 0: 24 and with it
  bool parallel = true;            // false: the answer ends behind its first call
  protocol::CallNamer namer = {};  // calls as the client has them
};
std::unique_ptr<EventStream> ParseStream(std::unique_ptr<EventStream> stream,
                                         const ParsedStreamOptions& options);

}  // namespace kvgate::provider
