// WholeBody: the body of a Responses request with all of its turns in it, as a client that keeps
// its history itself would have sent it. So prompts that go on from stored turns are prepared like
// all others, and a conversation keeps its cached prefix whichever way its client goes on. Pure;
// any thread may call it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::prompt {

// Returns the body with these items, each as JSON, in place of its input, and without the names of
// what is stored. Items go without ids, because those of a history need not have the ids that they
// are stored under. Returns nullopt if the body or an item is no JSON object.
std::optional<std::string> WholeBody(std::string_view body,
                                     std::span<const std::string_view> items);

}  // namespace kvgate::prompt
