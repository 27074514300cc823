// Chooses among the branches whose first answer is still to come the one that a request goes on
// from, where no run of turns that both have proves it: by what their beginnings have in common.
// Pure; any thread may call it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

struct SecondRequest {
  std::string_view body;
  const parse::RequestLayout& layout;
  const FirstTurn* first_turn = nullptr;  // as Recognition::first_turn
};

using BranchSpan = std::span<const std::shared_ptr<const Branch>>;

// Returns true for a first request that another of the branches has gone on from.
bool IsGoneOnFrom(const Branch& branch, BranchSpan branches);

// Returns true if most lines of system prompt and first turn and most tools are common, and the
// first turns begin and end in the same words: with one answer in common, that proves what a longer
// run of turns proves. False if there have been too many answers since.
bool BeginsAlike(const Branch& branch, const SecondRequest& now);

// Among the branches that share a name: one that has the request's first words, if the request
// brings its answer, or whose system prompt and first turn are the request's but for their values;
// else the most similar one. Null if there is none, or more than one.
std::shared_ptr<const Branch> ChooseUnanswered(BranchSpan branches, const SecondRequest& now);

// Among branches of conversations without a name: the only one that begins alike. Many
// conversations of an agent share all but the user's words, and those alone prove nothing.
std::shared_ptr<const Branch> ChooseSimilar(BranchSpan branches, const SecondRequest& now);

}  // namespace kvgate::prompt::history
