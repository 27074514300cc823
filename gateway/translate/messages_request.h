// Reads request bodies of the Messages dialect (Anthropic) into a RequestForm, and writes them from
// one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadMessagesRequest(const RawObject& body, std::string_view target, RequestForm& form);
Result<std::string> WriteMessagesRequest(const TargetTraits& traits, RequestForm& form);

}  // namespace kvgate::translate
