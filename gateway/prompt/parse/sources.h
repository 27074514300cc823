// Derives a segment's role, content and source from its place, type, name and first words.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/parse/shared_list.h"

namespace kvgate::prompt::parse {

// A segment with the raw strings of the body on which only its source depends.
struct Found {
  Segment segment;
  std::optional<std::string_view> source;  // kvgate_source of the block or its message
  std::string_view name;                   // of the message
  std::string_view type;                   // of the block
  // The source that AssignSources derived from these three; nullopt if the turn decides.
  std::optional<Source> own = std::nullopt;
  bool is_read = false;
};

Role RoleOf(const Place& place, const ReadObject& object);
Content ContentOf(const Place& place, const ReadObject& object);

// Facts about the known turns [begin, end) at the front of a list, on which the sources of the
// turns behind them depend.
struct FrontTurns {
  int32_t last_user = -1;  // the last turn in which the user speaks
  bool has_user_text = false;
};
FrontTurns ReadFront(const SharedList<Found>& turns, size_t begin, size_t end);
// Assigns the sources of system and messages, each in body order. Returns the element of the last
// turn in which the user speaks; -1 if there is none.
int32_t AssignSources(std::string_view body, const FrontTurns& front, std::vector<Found>& system,
                      std::vector<Found>& messages);
// Returns the source of a turn that AssignSources has read.
Source SourceOf(const Found& turn, int32_t last_user);

}  // namespace kvgate::prompt::parse
