// Template: a chat template in Jinja2, compiled once.
//
// It renders exactly as Jinja2 3.1 does in the environment that transformers sets up for chat
// templates: an immutable sandbox with trim_blocks, lstrip_blocks, loop controls, the `generation`
// tag, transformers' own tojson, raise_exception and strftime_now, and no escaping. If Jinja2 would
// raise, rendering fails. It knows nothing of models, tokens or HTTP.
//
// A rendering reports which of its bytes came from the input and which from the template: see
// Origin. Immutable and thread-safe; renderings share nothing.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/syntax/limits.h"
#include "engine/text/jinja/value/data.h"

namespace kvgate::jinja {

class Template {
 public:
  // Fails with kSyntax, or with kLimit if the source exceeds kSourceBytesMax.
  static syntax::Outcome<std::unique_ptr<const Template>> Parse(std::string_view source);
  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  struct Variable {
    std::string_view name;
    const value::Data* value;  // must outlive the rendering
    value::Origin origin = value::Origin::kInput;
  };
  struct Input {
    std::span<const Variable> variables;  // of equal names the last one wins
    std::optional<std::tm> now = {};      // for strftime_now; absent: local time
    syntax::Limits limits = {};
  };
  // Bytes [begin, end) of the text that came from the input.
  struct InputRange {
    size_t begin;
    size_t end;
    value::Origin origin;
  };
  struct Rendering {
    std::string text;
    std::vector<InputRange> inputs;  // ascending, not overlapping
  };
  syntax::Outcome<Rendering> Render(const Input& input) const;

  // Returns true if the template reads or sets a variable of this name. If false, its output cannot
  // depend on it.
  bool Mentions(std::string_view name) const;

 private:
  struct Compiled;
  explicit Template(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

// Parses "2026-03-14 09:26:53", or with a T between date and time. Returns nothing if it is not a
// valid time.
std::optional<std::tm> ParseTime(std::string_view text);

}  // namespace kvgate::jinja
