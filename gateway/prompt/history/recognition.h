// Recognition: whose turn a request is: the keys that its conversation is found under, and which of
// that conversation's branches it goes on from. Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt {

struct RecognitionArgs {
  const Outline& outline;
  std::string_view body;
  std::string_view tenant;
  std::string_view session;
  std::string_view upstream;
};

struct Recognition {
  // The conversation's own first, then what it may be known under where that has changed.
  std::vector<Identity> keys;
  std::string_view origin;    // as ConversationKey::origin
  Identity shape;             // stable, of model, tools as a set, and system
  Identity beginning;         // of that and the first user turn
  bool continues = false;     // it holds an assistant's turn
  bool holds_history = true;  // as HoldsHistory
  bool by_content() const { return origin == "content"; }
  // Two first requests that read alike are two conversations, unless their caller has named one.
  bool may_go_on() const { return continues || !by_content(); }
};
Recognition Recognize(const RecognitionArgs& args);

// The branch with which it shares the longest prefix; null: it goes on from none of them. Where its
// provider holds the history, the newest of that system prompt, else the newest.
struct Chosen {
  std::shared_ptr<const Branch> branch = nullptr;
  bool extends = false;  // all its turns stand at the front: nobody goes on from it again
};
Chosen ChooseBranch(std::span<const std::shared_ptr<const Branch>> branches, const Outline& outline,
                    const Recognition& recognition);

}  // namespace kvgate::prompt
