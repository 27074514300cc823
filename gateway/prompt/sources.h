// Sources: what a segment is by its place, type, name and first words: role, content, source.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gateway/prompt/element_reader.h"
#include "gateway/prompt/segment.h"

namespace kvgate::prompt {

// A segment with what only its source depends on; raw strings of the body.
struct Found {
  Segment segment;
  std::optional<std::string_view> source;  // kvgate_source, its own or its message's
  std::string_view name;                   // of the message
  std::string_view type;                   // of the block
  // What AssignSources has made of these three; nothing: its turn decides.
  std::optional<Source> own = std::nullopt;
  bool is_read = false;
};

Role RoleOf(const Place& place, const ReadObject& object);
Content ContentOf(const Place& place, const ReadObject& object);
// Of system and messages, each in its order.
void AssignSources(std::string_view body, std::vector<Found>& system, std::vector<Found>& messages);

}  // namespace kvgate::prompt
