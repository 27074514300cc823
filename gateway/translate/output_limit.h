// How long the answer to a translated request may be.
#pragma once

#include "gateway/protocol/form/completion.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

// The request's own bound, else the limit's; never more than the limit allows. A value that is no
// number is the provider's to refuse.
void BoundOutput(const protocol::OutputLimit& limit, RequestForm& form);

}  // namespace kvgate::translate
