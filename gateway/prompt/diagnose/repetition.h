// Repetition says how much of a request was sent before, at whatever place. Pure; any thread may
// call it.
#pragma once

#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

// Estimated tokens. What both requests have is neither new nor gone. A segment that was edited in
// its place counts by the share of its bytes that differ.
struct Repetition {
  double new_tokens = 0;   // of `now`, not sent with `before`
  double gone_tokens = 0;  // of `before`, not sent with `now`
};

// Turns of another conversation are compared only as far as both conversations begin alike.
Repetition FindRepetition(const history::SentRequest& before, const history::SentRequest& now,
                          bool same_conversation);

}  // namespace kvgate::prompt::diagnose
