// RecordFormat: a RequestRecord as the bytes that are stored: a fifth of its JSON, because a busy
// gateway writes thousands of them a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/seal.h"

#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

// Within the bounds of request_record.h. store/FORMAT.md has the layout. The words that a record
// shows of prompts are sealed.
std::string EncodeRecord(const RequestRecord& record, const Keyring& ring);
// Nothing: these are not the bytes of a record, or of a version that is not known. Records of the
// two versions before this one are read. Words sealed with another secret are left out.
std::optional<RequestRecord> DecodeRecord(std::string_view bytes, const Keyring& ring);
// Whether it may have words of a prompt that are not sealed.
bool HasClearWords(std::string_view bytes);
// RequestRecord::time_us, without decoding the rest; 0: there is none.
int64_t TimeOfRecord(std::string_view bytes);

}  // namespace kvgate::ledger
