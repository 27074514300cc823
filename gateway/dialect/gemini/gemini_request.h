// Reads request bodies of Gemini's dialect into a RequestForm, and writes them from one.
//
// A body names neither its model nor whether it wants a stream: the path does. Members may be
// spelled in camelCase or in snake_case. Calls need no id: one without gets its number in the
// conversation, and a result without one answers the first open call of its name, so that a
// conversation that grows keeps the ids of its turns.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::gemini {

// What the path says.
struct PathSays {
  std::string_view model;
  bool stream = false;
};

// `target` names the dialect that the body is translated to, for errors. Returns kInvalidArgument
// or kUnsupported with the field at fault.
Result<void> ReadGeminiRequest(const translate::RawObject& body, std::string_view target,
                               const PathSays& path, translate::RequestForm& form);
Result<std::string> WriteGeminiRequest(translate::RequestForm& form);

// The request whose tokens a body of countTokens asks for: the one in it, or the body itself.
std::string_view CountedRequest(std::string_view body);

// True if the caller wants to see the model's thoughts.
bool WantsThoughts(const translate::RawObject& body);

// The path of a request: "/v1beta/models/MODEL:generateContent", or its streaming form. What may
// not stand in a path segment of the model's name is percent-encoded.
std::string GeminiPath(const PathSays& path);

}  // namespace kvgate::dialect::gemini
