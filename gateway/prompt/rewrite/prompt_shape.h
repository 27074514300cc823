// The shape of a prompt is what conversations of one agent share: model, tools and system prompt,
// without what changes in them. Pure; may be called from any thread.
#pragma once

#include <memory>

#include "gateway/prompt/history/recognition.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/templates/slot_set.h"

namespace kvgate::prompt::rewrite {

// Returns the slots of a conversation that begins: those of the known ones that it has.
std::shared_ptr<const templates::SlotSet> SlotsOf(const Draft& draft);

// Returns the identity of model, tools and system prompt, without what changes in them.
parse::Identity ShapeOf(const Draft& draft, const history::Recognition& found);

}  // namespace kvgate::prompt::rewrite
