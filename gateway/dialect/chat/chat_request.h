// Reads request bodies of the Chat Completions dialect into a RequestForm, and writes them from
// one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::chat {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadChatRequest(const translate::RawObject& body, std::string_view target,
                             translate::RequestForm& form);
Result<std::string> WriteChatRequest(const translate::TargetTraits& traits,
                                     translate::RequestForm& form);

}  // namespace kvgate::dialect::chat
