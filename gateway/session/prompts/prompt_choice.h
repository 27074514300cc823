// PromptChoice: from what a request asks for and what its conversation began with to the version
// that it gets, and its values. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/session/prompts/beginnings.h"
#include "gateway/session/prompts/prompt_library.h"
#include "gateway/session/prompts/prompt_name.h"

namespace kvgate::session::prompts {

struct ChoiceArgs {
  const PromptLibrary& library;
  Beginnings& beginnings;
  PromptName ask = {};
  std::string_view values = {};  // the header's; empty: it says none
  // What its session, or its chain of responses, began with; absent: it begins now, or belongs to
  // none.
  std::optional<log::TurnPrompt> remembered = {};
  Conversation conversation = {};  // for what remembers nothing
  bool is_session = false;         // a session's system text is the same for all of its turns
  bool is_plain = false;           // the body has new turns alone, and no system text of its own
  bool may_differ = false;         // x-kvgate-session-mode: append
};

struct PromptChoice {
  log::TurnPrompt prompt = {};
  std::string text = {};
  // The session has the text already, and the version is there no more: nothing is to be put into
  // the body.
  bool is_gone = false;
};

// Fails with kNotFound for an unknown name or version, with kSessionSource (409) for another one
// than the conversation began with, or other values than its session has, and with
// kInvalidArgument as ArrangeValues does. The field is the header.
Result<PromptChoice> ChoosePrompt(const ChoiceArgs& args);

}  // namespace kvgate::session::prompts
