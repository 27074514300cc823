// Requests of the Chat Completions dialect: bodies into the one form and back.
#pragma once

#include <string>

#include <kvgate/result.h>

#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// `target`: the name of the dialect that it is read for, for errors.
Result<void> ReadChatRequest(const RawObject& body, std::string_view target, RequestForm& form);
Result<std::string> WriteChatRequest(const TargetTraits& traits, RequestForm& form);

}  // namespace kvgate::translate
