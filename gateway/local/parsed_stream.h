// ParsedStream parses an answer's text in the way of its model's family: reasoning, text and tool
// calls become deltas of their own kinds. Each choice has a stream of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/reply_parser.h"
#include "gateway/dialect/form/client_calls.h"
#include "gateway/local/event_stream.h"

namespace kvgate::local {

struct ParsedStreamOptions {
  output::ReplyParserOptions parser;
  // Prefix of the ids of calls for which the model gives no usable id.
  std::string_view id_prefix = "call_";
  int id_length = 0;     // length of such an id, then without the prefix; 0: 24 after the prefix
  bool parallel = true;  // false: the answer ends after its first call
  dialect::form::CallNamer namer = {};  // maps calls to the client's names
};
std::unique_ptr<EventStream> ParseStream(std::unique_ptr<EventStream> stream,
                                         const ParsedStreamOptions& options);

}  // namespace kvgate::local
