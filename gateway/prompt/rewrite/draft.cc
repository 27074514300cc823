#include "gateway/prompt/rewrite/draft.h"

#include <utility>

namespace kvgate::prompt {

Draft MakeDraft(std::string_view body, const Outline& outline, std::shared_ptr<const Branch> branch,
                uint32_t rules_off) {
  Draft draft{.body = body,
              .outline = outline,
              .branch = std::move(branch),
              .rules_off = rules_off,
              .segments = {},
              .tool_keys = {},
              .tail = {},
              .lines_move = false,
              .notes = {}};
  draft.segments.reserve(outline.segments.size());
  for (const Segment& segment : outline.segments) {
    DraftSegment& out = draft.segments.emplace_back();
    out.now = &segment;
    out.slot = &segment;
  }
  if (draft.branch) {
    draft.tail = draft.branch->tail;
    draft.lines_move = draft.branch->lines_move;
  }
  return draft;
}

const std::string* CallerBytes(const Branch& branch, size_t index) {
  const CallerForm& form = branch.forms[index];
  return form.caller ? form.caller.get() : branch.request.segments[index].bytes.get();
}

}  // namespace kvgate::prompt
