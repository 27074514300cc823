#include "gateway/dialect/translate/output_limit.h"

#include <string>

#include "gateway/dialect/form/json_text.h"

namespace kvgate::dialect::translate {

void BoundOutput(const form::OutputLimit& limit, RequestForm& form) {
  if (!form.max_tokens && limit.fallback > 0) {
    form.max_tokens.value = form.Keep(std::to_string(limit.fallback));
  }
  if (limit.most == 0 || !form.max_tokens) return;
  const std::string_view named = form.max_tokens.value;
  // Some servers read -1 and 0 as "no limit".
  if (form::IsNumberAbove(named, limit.most) || !form::IsNumberAbove(named, 0)) {
    form.max_tokens.value = form.Keep(std::to_string(limit.most));
  }
}

}  // namespace kvgate::dialect::translate
