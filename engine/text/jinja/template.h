// Template: a Jinja2 template as chat templates are written, compiled once.
//
// What it renders is what Jinja2 3.1 gives in the environment that transformers makes for chat
// templates: an immutable sandbox with trim_blocks, lstrip_blocks, loop controls, the `generation`
// tag, transformers' own tojson, raise_exception and strftime_now, and no escaping. Where Jinja2
// raises, rendering fails. It knows nothing of models, tokens or HTTP.
//
// A rendering says which of its bytes came with the input and which the template wrote: see Origin.
// Immutable and thread-safe; renderings share nothing.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/data.h"
#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/syntax/limits.h"

namespace kvgate::jinja {

class Template {
 public:
  // kSyntax, or kLimit for a source past kSourceBytesMax.
  static Outcome<std::unique_ptr<const Template>> Parse(std::string_view source);
  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  struct Variable {
    std::string_view name;
    const Data* value;  // outlives the rendering
    Origin origin = Origin::kInput;
  };
  struct Input {
    std::span<const Variable> variables;  // of equal names the last counts
    std::optional<std::tm> now = {};      // for strftime_now; absent: local time
    Limits limits = {};
  };
  // Bytes [begin, end) of a text that are not the template's own.
  struct InputRange {
    size_t begin;
    size_t end;
    Origin origin;
  };
  struct Rendering {
    std::string text;
    std::vector<InputRange> inputs;  // ascending, not overlapping
  };
  Outcome<Rendering> Render(const Input& input) const;

  // Whether the template has a variable of this name, or sets one: what it cannot depend on.
  bool Mentions(std::string_view name) const;

 private:
  struct Compiled;
  explicit Template(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

// "2026-03-14 09:26:53" as a time; nothing when it is none.
std::optional<std::tm> ParseTime(std::string_view text);

}  // namespace kvgate::jinja
