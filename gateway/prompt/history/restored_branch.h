// A restored branch is one that an earlier process has sent. The bytes that went out as received
// were not kept, because the conversation's next request carries them: it is filled from there.
// Pure; any thread may call these functions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

// Returns the branch with all bytes that the body has, found by their identities. Bytes that the
// body spells otherwise stay unknown.
std::shared_ptr<const Branch> FillFrom(const Branch& branch, std::string_view body,
                                       const parse::RequestLayout& layout);

// Returns true if the request can be the one that followed the branch's last: it brings no more
// than one answer. With two, a request between them was sent that the branch does not know.
bool Follows(const Branch& branch, const parse::RequestLayout& layout);

// Returns how many answers a request or a branch holds, each a run of an assistant's turns.
// Thinking alone is none, because it may have been left out.
size_t CountAnswers(const parse::RequestLayout& layout);
size_t CountAnswers(const Branch& branch);

// Returns true if a model has answered within this conversation before: the request holds an
// assistant's turn that is no example.
bool IsUnderWay(const parse::RequestLayout& layout);

// What a request did to the prefix that the request before it has sent.
enum class Rewrite : uint8_t {
  kNone,     // it extends it
  kClient,   // its caller edited or deleted something
  kGateway,  // its caller only added; the gateway is at fault
};
Rewrite RewriteOf(const Branch& before, const Branch& now);

// Returns the tokens of those among the others all of whose turns a restored branch begins with, in
// the bytes that were sent, longest first: another gateway may have gone on from any of them. None
// if `branch` is null or was not restored.
std::vector<uint64_t> TokensWithin(const Branch* branch,
                                   std::span<const std::shared_ptr<const Branch>> others);

}  // namespace kvgate::prompt::history
