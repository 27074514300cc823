#include "gateway/translate/output_limit.h"

#include <string>

#include "gateway/protocol/form/json_text.h"

namespace kvgate::translate {

void BoundOutput(const protocol::OutputLimit& limit, RequestForm& form) {
  if (!form.max_tokens && limit.fallback > 0) {
    form.max_tokens.value = form.Keep(std::to_string(limit.fallback));
  }
  if (limit.most == 0 || !form.max_tokens) return;
  const std::string_view named = form.max_tokens.value;
  // -1 and 0 are no bound at all to some servers.
  if (protocol::IsNumberAbove(named, limit.most) || !protocol::IsNumberAbove(named, 0)) {
    form.max_tokens.value = form.Keep(std::to_string(limit.most));
  }
}

}  // namespace kvgate::translate
