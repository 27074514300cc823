#include "gateway/prompt/rewrite/draft.h"

#include <utility>

namespace kvgate::prompt::rewrite {

void GoAsItCame(DraftSegment& out) {
  DraftSegment own;
  own.now = out.now;
  own.slot = out.slot;
  out = std::move(own);
}

Draft MakeDraft(std::string_view body, const parse::RequestLayout& layout,
                std::shared_ptr<const history::Branch> branch, uint32_t rules_off) {
  Draft draft{.body = body,
              .layout = layout,
              .branch = std::move(branch),
              .rules_off = rules_off,
              .segments = {},
              .tool_keys = {},
              .tail = {},
              .lines_move = false,
              .binds_thinking = false,
              .slots = nullptr,
              .system_turn = ledger::SystemTurn::kNone,
              .is_dry = false,
              .num_held = 0,
              .notes = {}};
  draft.segments.reserve(layout.segments.size());
  for (const parse::Segment& segment : layout.segments) {
    DraftSegment& out = draft.segments.emplace_back();
    out.now = &segment;
    out.slot = &segment;
  }
  if (draft.branch) {
    draft.tail = draft.branch->tail;
    draft.lines_move = draft.branch->lines_move;
    draft.slots = draft.branch->slots;
  }
  return draft;
}

const std::string* CallerBytes(const history::Branch& branch, size_t index) {
  const history::CallerForm& form = branch.forms[index];
  return form.caller ? form.caller.get() : branch.request.segments[index].bytes.get();
}

}  // namespace kvgate::prompt::rewrite
