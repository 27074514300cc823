// Formats of JSON Schema's strings, as patterns of ours: each writes a part of what the format
// allows that every reader accepts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvgate::grammar {

// The pattern of a format that we have: date-time, date, time, duration, email, hostname, ipv4,
// ipv6, uri, uri-reference, uuid, base64, json-pointer, and other names of these; "" where any text
// will do: password, binary, path and such notes, and formats of numbers.
std::optional<std::string_view> PatternOfFormat(std::string_view format);
// Their names, for messages.
std::string FormatNames();

}  // namespace kvgate::grammar
