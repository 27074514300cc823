// Recognition finds the conversation that a request belongs to, by its keys, and the branch of that
// conversation that it continues. Pure; any thread may call it.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

struct RecognitionArgs {
  const parse::RequestLayout& layout;
  std::string_view body;
  std::string_view tenant;
  std::string_view session;
  std::string_view upstream;
};

struct Recognition {
  // The conversation's own key comes first, then those under which it may be known if parts have
  // changed.
  std::vector<parse::Identity> keys;
  std::string_view origin;    // as ConversationKey::origin
  parse::Identity shape;      // stable identity of model, tools as a set, and system
  parse::Identity beginning;  // identity of the shape and the first user turn
  // Of a request with few answers; else null.
  std::shared_ptr<FirstTurn> first_turn = {};
  bool continues = false;     // it holds an assistant turn
  bool holds_history = true;  // see HoldsHistory
  // All keys under which what the request goes on from may be found. Those of the agent are the
  // same for all of its conversations, which are found under them until their first answer is
  // known.
  std::vector<parse::Identity> LookedUp() const;
  bool by_content() const { return origin == "content"; }
  // Two equal first requests are two conversations, unless their caller has named one.
  bool may_go_on() const { return continues || !by_content(); }
};
Recognition Recognize(const RecognitionArgs& args);

// Chooses the branch with the longest common prefix; null if the request continues none, or may
// continue either of two that were sent different bytes. A conversation without a name needs an
// answer in common, or a like beginning if it had none yet, of which a program may have taken its
// notices out. If the provider holds the history, it is the newest branch with that system prompt,
// else the newest of all.
struct Chosen {
  std::shared_ptr<const Branch> branch = nullptr;
  bool extends = false;  // the request contains all of its turns, so nobody will continue it again
};
Chosen ChooseBranch(std::span<const std::shared_ptr<const Branch>> branches, std::string_view body,
                    const parse::RequestLayout& layout, const Recognition& recognition);

// Returns true if the request extends the branch by at most the answer to its last request. With
// more of them it has gone on where nobody here has seen it.
bool IsNext(const Chosen& chosen, const parse::RequestLayout& layout);

}  // namespace kvgate::prompt::history
