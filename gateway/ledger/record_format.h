// RecordFormat: a RequestRecord as the bytes that are stored: a fifth of its JSON, because a busy
// gateway writes thousands of them a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

// Within the bounds of request_record.h. store/FORMAT.md has the layout.
std::string EncodeRecord(const RequestRecord& record);
// Nothing: these are not the bytes of a record, or of a version that is not known. Records of the
// version before this one are read.
std::optional<RequestRecord> DecodeRecord(std::string_view bytes);
// RequestRecord::time_us, without decoding the rest; 0: there is none.
int64_t TimeOfRecord(std::string_view bytes);

}  // namespace kvgate::ledger
