// What Gemini's models want back with their calls: the signature of the thought that led to a call.
// No other dialect has a place for it beside a call, so it travels in the call's id, which clients
// send back as they got it, also after a restart and through another gateway.
#pragma once

#include <string>
#include <string_view>

namespace kvgate::dialect::gemini {

struct SignedId {
  std::string id;
  std::string signature;  // base64 as the dialect has it; empty: none
};

// Returns an id that holds both. It has only letters, digits, '-' and '_', as the Messages dialect
// requires. A signature that is no base64 is left out.
std::string JoinCallId(const SignedId& id);
// Returns what JoinCallId was given; any other id has no signature.
SignedId SplitCallId(std::string_view id);

// What stands in a signature's place where there is none, because a call was made by another model
// or its client lost the id. Gemini's documentation names it for conversations that it did not
// begin: https://ai.google.dev/gemini-api/docs/thought-signatures.
inline constexpr std::string_view kNoSignature = "skip_thought_signature_validator";

}  // namespace kvgate::dialect::gemini
