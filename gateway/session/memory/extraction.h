// Extraction: facts that a model finds in a conversation, by a schema: the words that ask it, as
// one more message behind the conversation, so that all but that is read from the cache; and what
// its answer changes of a memory. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/memory/entry.h"
#include "gateway/session/memory/fact_schema.h"

namespace kvgate::session::memory {

inline constexpr size_t kInstructionBytesMax = 4096;

class Extraction {
 public:
  // Reads {"schema": {…}, "instructions": "…"}; the second may be missing. Fails with
  // kInvalidArgument, which names the field.
  static Result<Extraction> Read(std::string_view body);

  const FactSchema& schema() const { return schema_; }
  // What the user says behind the conversation. `known` is what the memory has.
  std::string Question(std::span<const Entry> known) const;

  struct Found {
    Entries changes = {};  // of the schema's facts; "null" removes one
    // Facts whose values are not as the schema says, or that it does not have.
    std::vector<std::string> refused = {};
  };
  // Reads what the model wrote: an object, also with words or a fence around it. Fails with
  // kUnavailable if there is none.
  Result<Found> ReadAnswer(std::string_view text) const;

 private:
  Extraction(FactSchema schema, std::string instructions)
      : schema_(std::move(schema)), instructions_(std::move(instructions)) {}

  FactSchema schema_;
  std::string instructions_;
};

}  // namespace kvgate::session::memory
