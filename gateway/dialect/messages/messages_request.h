// Reads request bodies of the Messages dialect (Anthropic) into a RequestForm, and writes them from
// one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::messages {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadMessagesRequest(const translate::RawObject& body, std::string_view target,
                                 translate::RequestForm& form);
Result<std::string> WriteMessagesRequest(const translate::TargetTraits& traits,
                                         translate::RequestForm& form);

}  // namespace kvgate::dialect::messages
