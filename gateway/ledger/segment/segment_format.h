// SegmentFormat stores the segments of one record as bytes, and shows them as JSON. Pure; any
// thread may call it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/segment/record_segment.h"

namespace kvgate::ledger::segment {

// Encodes at most kSegmentsMax segments in the layout of store/FORMAT.md. Longer texts are cut, so
// that a row stays below 200 KB whatever a caller sends.
std::string EncodeSegments(std::span<const RecordSegment> segments);
// Returns nullopt if the bytes are none, or of an unknown version.
std::optional<std::vector<RecordSegment>> DecodeSegments(std::string_view bytes);
// Writes an array.
void WriteSegments(std::span<const RecordSegment> segments, dialect::form::JsonWriter& json);

}  // namespace kvgate::ledger::segment
