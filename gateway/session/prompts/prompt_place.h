// The place of a prompt in a body: in front of all system text that its caller brings, with the
// values of its variables behind that. All else of the body stays as it is written. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::prompts {

using transcript::Dialect;

// What a body says of the conversation that it belongs to.
struct BodyView {
  std::string opening = {};    // the first words of its user
  std::string answered = {};   // its first answer; empty: it has none yet
  std::string continues = {};  // the id of what it goes on from, kept elsewhere than in the body
  bool has_system = false;     // it brings system text of its own
};
// Fails with kInvalidArgument for what is no body of the dialect, with its field.
Result<BodyView> ViewOf(Dialect dialect, std::string_view body);

struct PlaceArgs {
  Dialect dialect = Dialect::kChatCompletions;
  std::string_view body = {};
  std::string_view text = {};    // of the prompt
  std::string_view values = {};  // the block of its values; empty: it has none
  // Others read what a cache holds of it: where a prefix is written only up to a breakpoint, its
  // block gets one, unless it is short, or the caller has set as many as there may be.
  bool is_shared = false;
};
// Returns the body with the prompt in it: as first blocks and last block of `system`, around the
// text of `instructions`, or around that of the leading system messages, of which there is one
// then. Fails with kInvalidArgument if the caller's own system text has another form than its
// dialect says, with its field.
Result<std::string> WithPrompt(const PlaceArgs& args);

}  // namespace kvgate::session::prompts
