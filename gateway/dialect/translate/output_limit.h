// Limits the length of answers to translated requests.
#pragma once

#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::translate {

// Applies the limit to the request's max_tokens: an absent value becomes limit.fallback, and a
// value above limit.most or not above 0 becomes limit.most.
void BoundOutput(const form::OutputLimit& limit, RequestForm& form);

}  // namespace kvgate::dialect::translate
