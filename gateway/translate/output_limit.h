// Limits the length of answers to translated requests.
#pragma once

#include "gateway/protocol/form/completion.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// Applies the limit to the request's max_tokens: an absent value becomes limit.fallback, and a
// value above limit.most or not above 0 becomes limit.most.
void BoundOutput(const protocol::form::OutputLimit& limit, RequestForm& form);

}  // namespace kvgate::translate
