#include "gateway/session/memory/memory_admin.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::memory {

using dialect::form::JsonWriter;
using transcript::Json;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr int64_t kMicroseconds = 1'000'000;

Error NotKept() {
  return MakeError(ErrorCode::kUnsupported, kSource,
                   "Nothing is kept in memory here: the server has no data directory, or its disk "
                   "cannot be written.");
}

Error NoObject() {
  return MakeError(ErrorCode::kInvalidArgument, kSource, "The body is no JSON object.");
}

void WriteRetrieval(const Memory& memory, JsonWriter& json) {
  json.Key("retrieval");
  memory.retrieves ? json.Bool(*memory.retrieves) : json.Null();
}

}  // namespace

std::string ToBody(const Memory& memory) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("facts");
  WriteEntries(memory.entries, json);
  WriteRetrieval(memory, json);
  json.EndObject();
  return out;
}

Result<void> ReadBody(std::string_view body, Memory& memory) {
  const std::optional<Json> json = transcript::ParseJson(body);
  if (!json || !json->is_object()) return NoObject();
  Memory read{.updated_us = memory.updated_us};
  for (const auto& [name, value] : json->items()) {
    if (name == "facts") {
      if (value.is_null()) continue;
      KVGATE_TRY(read.entries, ReadEntries(transcript::Dump(value), name));
    } else if (name == "retrieval") {
      if (value.is_boolean()) read.retrieves = value.get<bool>();
      if (value.is_boolean() || value.is_null()) continue;
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       "Invalid value for 'retrieval': true, false and null are known.", name);
    } else {
      return MakeError(
          ErrorCode::kInvalidArgument, kSource,
          fmt::format("Unknown field '{}': a memory has facts and retrieval.", name.substr(0, 64)),
          name.substr(0, 64));
    }
  }
  std::erase_if(read.entries, [](const Entry& entry) { return entry.value == "null"; });
  memory = std::move(read);
  return {};
}

Result<std::string> MemoryAdmin::Write(const Place& place, const Memory& memory) const {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("memory").Key("session");
  place.session.empty() ? json.Null() : json.String(place.session);
  json.Key("facts");
  WriteEntries(memory.entries, json);
  if (!place.session.empty()) {
    KVGATE_TRY(const Memory of_tenant, book_->Get({.tenant = place.tenant}));
    json.Key("tenant_facts");
    WriteEntries(of_tenant.entries, json);
  }
  WriteRetrieval(memory, json);
  json.Key("updated_at");
  memory.updated_us > 0 ? json.Integer(memory.updated_us / kMicroseconds) : json.Null();
  json.EndObject();
  return out;
}

Result<std::string> MemoryAdmin::Show(const Place& place) const {
  if (book_ == nullptr) return NotKept();
  KVGATE_TRY(const Memory memory, book_->Get(place));
  return Write(place, memory);
}

Result<std::string> MemoryAdmin::Put(const Place& place, std::string_view body) const {
  if (book_ == nullptr) return NotKept();
  KVGATE_TRY(const Memory memory,
             book_->Update(place, [&](Memory& changed) { return ReadBody(body, changed); }));
  return Write(place, memory);
}

Result<std::string> MemoryAdmin::Patch(const Place& place, std::string_view body) const {
  if (book_ == nullptr) return NotKept();
  const std::optional<Json> patch = transcript::ParseJson(body);
  if (!patch || !patch->is_object()) return NoObject();
  KVGATE_TRY(const Memory memory, book_->Update(place, [&](Memory& changed) {
    std::optional<Json> whole = transcript::ParseJson(ToBody(changed));
    whole->merge_patch(*patch);
    return ReadBody(transcript::Dump(*whole), changed);
  }));
  return Write(place, memory);
}

Result<std::string> MemoryAdmin::Clear(const Place& place) const {
  if (book_ == nullptr) return NotKept();
  KVGATE_TRY_VOID(book_->Remove(place));
  return Write(place, {});
}

Result<std::string> MemoryAdmin::Remove(const Place& place, std::string_view name) const {
  if (book_ == nullptr) return NotKept();
  KVGATE_TRY(const Memory memory, book_->Update(place, [&](Memory& changed) -> Result<void> {
    if (Find(changed.entries, name) == nullptr) {
      return MakeError(ErrorCode::kNotFound, kSource,
                       fmt::format("There is no fact '{}' in this memory.", name));
    }
    const Entry removed{.name = std::string(name), .value = "null"};
    Apply({&removed, 1}, changed.entries);
    return {};
  }));
  return Write(place, memory);
}

}  // namespace kvgate::session::memory
