// CallWriting: how a family's models write calls, for a grammar to follow: one of the ways that
// the family's parser reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/text/grammar/schema/json_schema.h"
#include "engine/reply/families.h"

namespace kvgate::reply {

// begin, then for each call head NAME middle ARGUMENTS tail, `between` between them, then end. "#"
// stands for the index of the call.
struct CallWriting {
  std::string begin = {};
  std::string head = {};
  std::string middle = {};
  std::string tail = {};
  std::string between = {};
  std::string end = {};
  std::optional<grammar::PairForm> pairs = {};  // arguments that are not JSON
  bool single = false;                          // a reply has one call at most
  // What a text turns into a call with: a beginning of begin + head.
  std::string mark = {};
};

CallWriting WritingOf(const Family& family, std::string_view chat_template);

}  // namespace kvgate::reply
