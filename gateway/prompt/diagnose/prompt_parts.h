// Prompt parts: what the ledger's record shows of each part of a prompt, and the name under which
// prompts with the same tools and system text are counted together.
#pragma once

#include <string>
#include <vector>

#include "gateway/ledger/segment/record_segment.h"
#include "gateway/prompt/diagnose/attribution.h"
#include "gateway/prompt/diagnose/segment_names.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

// Returns the parts in the order of rendering, at most ledger::segment::kSegmentsMax. Of a longer
// prompt, those in the middle are one part for each source, named "… N more". Their sums by source
// are those of `attributed`.
std::vector<ledger::segment::RecordSegment> PartsOf(const AttributeArgs& args,
                                                    const Attributed& attributed,
                                                    SegmentNames& names);

// Returns 16 hex digits: equal for equal tools and system text, but for volatile text in it. Empty
// if there are neither.
std::string PromptIdOf(const history::SentSegments& segments);

}  // namespace kvgate::prompt::diagnose
