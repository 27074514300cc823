// Reads request bodies of the Responses dialect into a RequestForm, and writes them from one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadResponsesRequest(const RawObject& body, std::string_view target,
                                  RequestForm& form);
Result<std::string> WriteResponsesRequest(const TargetTraits& traits, RequestForm& form);

// Returns the members that an answer repeats of its request, and how it shows its reasoning.
protocol::ResponseShape ShapeOf(const RawObject& body);

}  // namespace kvgate::translate
