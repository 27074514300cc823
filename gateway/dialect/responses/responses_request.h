// Reads request bodies of the Responses dialect into a RequestForm, and writes them from one.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::responses {

// `target` names the dialect that the body is translated to, for errors.
Result<void> ReadResponsesRequest(const translate::RawObject& body, std::string_view target,
                                  translate::RequestForm& form);
Result<std::string> WriteResponsesRequest(const translate::TargetTraits& traits,
                                          translate::RequestForm& form);

// Returns the members that an answer repeats of its request, and how it shows its reasoning.
reply::ResponseShape ShapeOf(const translate::RawObject& body);

}  // namespace kvgate::dialect::responses
