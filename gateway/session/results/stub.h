// Stub: what stands in a prompt in the place of a tool's result that is too long: its beginning and
// its end, and an id by which the model reads the rest (read_tool.h).
//
// A result has its stub from the moment it comes, when nothing stands behind it that a cache holds.
// To put one in the place of S tokens that stand in front of others which are cached would write
// all of those anew, and pays back only after (w - r) * behind / (r * S) requests, with the prices
// w of a token that is written and r of one that is read: 78 requests for 40,000 tokens with
// 130,000 behind them. So what was said stays as it was said. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/log/logged_turn.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::results {

using transcript::Dialect;
using transcript::Message;

// The id of a result: a digest of its text, so that it has the same stub whenever it is sent.
std::string IdOf(std::string_view text);

// Puts stubs in the place of the texts of results that have more than `bytes_max` bytes, and
// appends what they stand for to `kept`, each text once. Images and all else of a message stay.
// A stub has at most `bytes_max` bytes. REQUIRES: bytes_max >= kStubBytesMin.
void StubResults(Dialect dialect, size_t bytes_max, std::vector<Message>& messages,
                 std::vector<log::KeptResult>& kept);
inline constexpr size_t kStubBytesMin = 1024;

// The part of a text between these bytes, without characters that are cut in two.
std::string_view PartOf(std::string_view text, size_t begin, size_t end);

}  // namespace kvgate::session::results
