// String formats of JSON Schema as patterns. Each pattern covers the part of the format that every
// reader accepts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvgate::grammar::rules {

// Returns the pattern of a supported format: date-time, date, time, duration, email, hostname,
// ipv4, ipv6, uri, uri-reference, uuid, base64, json-pointer, and their synonyms. Returns "" if any
// text is valid: password, binary, path and similar notes, and formats of numbers. Returns nothing
// for an unknown format.
std::optional<std::string_view> PatternOfFormat(std::string_view format);
// Returns the names of the formats, for messages.
std::string FormatNames();

}  // namespace kvgate::grammar::rules
