#include "gateway/proxy/handler/data/memory_data.h"

#include <utility>

#include "gateway/session/memory/memory_admin.h"
#include "gateway/session/session_ask.h"

namespace kvgate::proxy::handler::data {

using request::Route;
using session::memory::MemoryAdmin;

namespace {

Result<std::string> Answer(const MemoryCall& call, const MemoryAdmin& admin,
                           const MemoryAdmin::Place& place) {
  switch (call.route) {
    case Route::kMemory:
      return admin.Show(place);
    case Route::kMemoryPut:
      return admin.Put(place, call.body);
    case Route::kMemoryPatch:
      return admin.Patch(place, call.body);
    case Route::kMemoryClear:
      return admin.Clear(place);
    default:
      return admin.Remove(place, call.place.item);
  }
}

}  // namespace

request::Response AnswerMemory(const MemoryCall& call) {
  const std::string& key = call.place.argument;
  if (!key.empty()) {
    if (const Result<void> checked = session::CheckKey(key, "key"); !checked) {
      return request::ErrorResponse(checked.error());
    }
  }
  const MemoryAdmin admin(call.sessions == nullptr ? nullptr : call.sessions->memory().book());
  Result<std::string> body = Answer(call, admin, {.tenant = call.tenant, .session = key});
  if (!body) return request::ErrorResponse(body.error());
  return {.body = *std::move(body)};
}

}  // namespace kvgate::proxy::handler::data
