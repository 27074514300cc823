// Entry: one fact or preference that is kept in memory, and lists of them. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::session::memory {

inline constexpr size_t kEntriesMax = 64;  // of one memory
inline constexpr size_t kNameBytesMax = 64;
inline constexpr size_t kValueBytesMax = 2048;
inline constexpr size_t kBytesMax = 16'384;  // of all names and values of one memory

struct Entry {
  std::string name = {};
  std::string value = {};  // JSON; never null, which stands for a value that is removed
  friend bool operator==(const Entry&, const Entry&) = default;
};
using Entries = std::vector<Entry>;

// Null if there is none of that name.
const Entry* Find(std::span<const Entry> entries, std::string_view name);
// Sets values in their places, new ones at the end; one without a value is removed.
void Apply(std::span<const Entry> changes, Entries& entries);

// Fails with kInvalidArgument, whose field is the entry's name, for an entry that no memory takes
// ("null" is taken: it removes), and for a memory that is too large.
Result<void> Check(const Entry& entry);
Result<void> CheckSize(std::span<const Entry> entries);

// Reads {"NAME": VALUE, …}. Fails with kInvalidArgument, whose field is `field` or "field.NAME".
Result<Entries> ReadEntries(std::string_view object, std::string_view field);
// Writes them in that form; as lists in the log they keep their order there.
void WriteEntries(std::span<const Entry> entries, dialect::form::JsonWriter& json);

}  // namespace kvgate::session::memory
