#include "gateway/translate/output_limit.h"

#include <string>

#include "gateway/protocol/form/json_text.h"

namespace kvgate::translate {

void BoundOutput(const protocol::form::OutputLimit& limit, RequestForm& form) {
  if (!form.max_tokens && limit.fallback > 0) {
    form.max_tokens.value = form.Keep(std::to_string(limit.fallback));
  }
  if (limit.most == 0 || !form.max_tokens) return;
  const std::string_view named = form.max_tokens.value;
  // Some servers read -1 and 0 as "no limit".
  if (protocol::form::IsNumberAbove(named, limit.most) ||
      !protocol::form::IsNumberAbove(named, 0)) {
    form.max_tokens.value = form.Keep(std::to_string(limit.most));
  }
}

}  // namespace kvgate::translate
