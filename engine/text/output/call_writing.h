// CallWriting: the form in which a grammar writes a family's calls. It is one of the forms that the
// family's parser accepts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/text/grammar/schema/json_schema.h"
#include "engine/text/output/families.h"

namespace kvgate::output {

// begin, then for each call: head NAME middle ARGUMENTS tail, with `between` as separator, then
// end. "#" stands for the index of the call.
struct CallWriting {
  std::string begin = {};
  std::string head = {};
  std::string middle = {};
  std::string tail = {};
  std::string between = {};
  std::string end = {};
  std::optional<grammar::schema::PairForm> pairs = {};  // set if arguments are not JSON
  bool single = false;                                  // a reply has at most one call
  // The text that turns free text into a call: a prefix of begin + head.
  std::string mark = {};
};

CallWriting WritingOf(const Family& family, std::string_view chat_template);

}  // namespace kvgate::output
