// Sources: what a segment is by its place, type, name and first words: role, content, source.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/shared_list.h"

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

// Of turns in front of others, [begin, end) of a list that is known already: what the sources of
// the others depend on.
struct FrontTurns {
  int32_t last_user = -1;  // the last turn in which the user speaks
  bool has_user_text = false;
};
FrontTurns ReadFront(const SharedList<Found>& turns, size_t begin, size_t end);
// Of system and messages, each in its order. The last turn in which the user speaks; -1: there is
// none.
int32_t AssignSources(std::string_view body, const FrontTurns& front, std::vector<Found>& system,
                      std::vector<Found>& messages);
// Of one of the turns, once AssignSources has read it.
Source SourceOf(const Found& turn, int32_t last_user);

}  // namespace kvgate::prompt
