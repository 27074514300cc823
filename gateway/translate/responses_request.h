// Requests of the Responses dialect: bodies into the one form and back.
#pragma once

#include <string>

#include <kvgate/result.h>

#include "gateway/protocol/reply_encoder.h"
#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// `target`: the name of the dialect that it is read for, for errors.
Result<void> ReadResponsesRequest(const RawObject& body, std::string_view target,
                                  RequestForm& form);
Result<std::string> WriteResponsesRequest(const TargetTraits& traits, RequestForm& form);

// What an answer repeats of its request, and shows of its reasoning.
protocol::ResponseShape ShapeOf(const RawObject& body);

}  // namespace kvgate::translate
