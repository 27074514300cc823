// Reads request bodies of the Chat Completions dialect into a RequestForm, and writes them from
// one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadChatRequest(const RawObject& body, std::string_view target, RequestForm& form);
Result<std::string> WriteChatRequest(const TargetTraits& traits, RequestForm& form);

}  // namespace kvgate::translate
