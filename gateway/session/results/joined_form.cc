#include "gateway/session/results/joined_form.h"

#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using transcript::Json;

std::unique_ptr<JoinedForm> MakeJoinedForm(Dialect dialect) {
  if (dialect == Dialect::kMessages) return MakeJoinedMessages();
  return dialect == Dialect::kResponses ? MakeJoinedResponses() : MakeJoinedChat();
}

void AddUsage(const Json& more, Json& usage) {
  if (!more.is_object()) return;
  if (!usage.is_object()) usage = Json::object();
  for (const auto& [name, value] : more.items()) {
    Json& known = usage[name];
    if (value.is_object()) {
      AddUsage(value, known);
    } else if (value.is_number_integer() && known.is_number_integer()) {
      known = known.get<int64_t>() + value.get<int64_t>();
    } else if (known.is_null()) {
      known = value;
    }
  }
}

}  // namespace kvgate::session::results
