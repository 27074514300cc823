#include "gateway/session/memory/memory_admin.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::memory {

using protocol::form::JsonWriter;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr int64_t kMicroseconds = 1'000'000;

Error NotKept() {
  return MakeError(ErrorCode::kUnsupported, kSource,
                   "Nothing is kept in memory here: the server has no data directory, or its disk "
                   "cannot be written.");
}

void WriteRetrieval(const Memory& memory, JsonWriter& json) {
  json.Key("retrieval");
  memory.retrieves ? json.Bool(*memory.retrieves) : json.Null();
}

// The first member of the body that no memory has; empty: it has none.
std::string UnknownMember(std::string_view body) {
  const auto json = transcript::ParseJson(body);
  if (!json || !json->is_object()) return "";
  for (const auto& member : json->items()) {
    if (member.key() != "facts" && member.key() != "retrieval") return member.key();
  }
  return "";
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

Result<void> ReadBody(std::string_view body, bool replaces, Memory& memory) {
  const auto object = transcript::IsTooDeep(body) ? std::nullopt : RawObject::Read(body);
  if (!object)
    return MakeError(ErrorCode::kInvalidArgument, kSource, "The body is no JSON object.");
  if (const std::string unknown = UnknownMember(body); !unknown.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("Unknown field '{}': a memory has facts and retrieval.", unknown),
                     unknown);
  }
  if (replaces) memory = {.updated_us = memory.updated_us};
  if (const std::string_view facts = object->At("facts"); !facts.empty()) {
    KVGATE_TRY(const Entries changes, ReadEntries(facts, "facts"));
    Apply(changes, memory.entries);
  }
  const std::string_view retrieval = object->At("retrieval");
  if (retrieval == "true" || retrieval == "false") {
    memory.retrieves = retrieval == "true";
  } else if (!retrieval.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     "Invalid value for 'retrieval': true, false and null are known.", "retrieval");
  } else if (body.find("\"retrieval\"") != std::string_view::npos) {
    memory.retrieves.reset();  // null
  }
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
    WriteRetrieval(memory, json);
  }
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
  KVGATE_TRY(const Memory memory, book_->Update(place, [&](Memory& changed) {
    return ReadBody(body, /*replaces=*/true, changed);
  }));
  return Write(place, memory);
}

Result<std::string> MemoryAdmin::Patch(const Place& place, std::string_view body) const {
  if (book_ == nullptr) return NotKept();
  KVGATE_TRY(const Memory memory, book_->Update(place, [&](Memory& changed) {
    return ReadBody(body, /*replaces=*/false, changed);
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
