// A system turn is a turn that the gateway adds behind the request's newest one, most often one of
// tool results: it says lines of the system prompt that have changed, and keeps their author. Which
// kind a model takes is data (ledger::SystemTurn). Later requests send it again where it stood,
// byte for byte. Only lines of the system prompt may stand in one, because the model obeys it.
//
// Anthropic takes one behind a user's turn, but neither first nor between a call and its result;
// one with `clear_at` is shown until the next user message only, and stays in the list.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/prices.h"
#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// The value of the header anthropic-beta with which a model takes `clear_at`.
inline constexpr std::string_view kBetaHeader = "anthropic-beta";
inline constexpr std::string_view kClearAtBeta = "mid-conversation-system-clear-at-2026-08-21";

// Returns the turns that a model takes in requests of this endpoint. `row` may be null.
ledger::SystemTurn SystemTurnOf(const ledger::PriceRow* row, dialect::form::Endpoint endpoint);
// Returns the turns that both allow.
ledger::SystemTurn LesserOf(ledger::SystemTurn a, ledger::SystemTurn b);

// Returns true if a system turn may follow the newest turn of the request.
bool MayAddSystemTurn(const Draft& draft);
// Appends one that says `lines`, which are those of a system prompt. REQUIRES: MayAddSystemTurn.
void AddSystemTurn(Draft& draft, std::vector<templates::CarriedLine> lines);

// Returns true if the model still takes a system turn that was sent before. REQUIRES: it is one.
bool MaySendAgain(const Draft& draft, const history::SentSegment& sent);
// Returns true if segment `index` of the draft is a system turn that the model does not see any
// more, because a user's turn follows it.
bool IsCleared(const Draft& draft, size_t index);
bool HasSystemTurn(const Draft& draft);

}  // namespace kvgate::prompt::rewrite
