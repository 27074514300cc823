#include "gateway/prompt/history/branch.h"

#include <utility>

namespace kvgate::prompt::history {

void DropBytes(Branch& branch) {
  SentSegments segments;
  parse::SharedList<CallerForm> forms;
  for (SentSegment segment : branch.request.segments) {
    segment.bytes = nullptr;
    segments.push_back(std::move(segment));
  }
  for (CallerForm form : branch.forms) {
    form.caller = nullptr;
    form.carried.clear();
    form.text = nullptr;
    form.left.clear();
    forms.push_back(std::move(form));
  }
  branch.request.segments = std::move(segments);
  branch.forms = std::move(forms);
  branch.bytes = branch.forms.size() * (sizeof(SentSegment) + sizeof(CallerForm));
}

const std::string* BytesAt(const Branch& branch, const parse::Place& place, bool is_callers) {
  const SentSegments& segments = branch.request.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].is_ours || !(segments[i].place == place)) continue;
    const bool has_own = is_callers && i < branch.forms.size() && branch.forms[i].caller;
    return has_own ? branch.forms[i].caller.get() : segments[i].bytes.get();
  }
  return nullptr;
}

}  // namespace kvgate::prompt::history
