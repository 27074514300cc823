// RecordFormat stores a RequestRecord as bytes. They take a fifth of its JSON, because a busy
// gateway writes thousands of records a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/seal.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

// Encodes a record, cut to the bounds of request_record.h, in the layout of store/FORMAT.md. The
// excerpts of prompts in it are sealed.
std::string EncodeRecord(const RequestRecord& record, const Keyring& ring);
// Decodes this version and those from 2 on. Returns nullopt if the bytes are no record, or are of
// an unknown version. Excerpts that were sealed with another secret are left out.
std::optional<RequestRecord> DecodeRecord(std::string_view bytes, const Keyring& ring);
// Returns true if the record may hold prompt text that is not sealed.
bool HasClearWords(std::string_view bytes);
// Where the segments of the record are (segment::SegmentRows): 0 if there are none, or if the
// record is of a version that kept them by id. EncodeRecord leaves 0.
void SetSegmentsNumber(std::string& bytes, uint64_t number);
uint64_t SegmentsNumberOf(std::string_view bytes);
// Returns RequestRecord::time_us without decoding the rest; 0 if the bytes are no record.
int64_t TimeOfRecord(std::string_view bytes);

}  // namespace kvgate::ledger
