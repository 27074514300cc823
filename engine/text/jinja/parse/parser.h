// Parser: tokens to the tree of a template. Everything that can be known without data is checked
// here: syntax, nesting, names of filters and tests, where break and loop may stand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/jinja/ast.h"
#include "engine/text/jinja/syntax/failure.h"
#include "engine/jinja/token.h"

namespace kvgate::jinja {

// The names of a template's variables, numbered.
class SymbolTable {
 public:
  Symbol Add(std::string_view name);
  // No such name: size().
  Symbol Find(std::string_view name) const;
  std::string_view NameOf(Symbol symbol) const { return names_[symbol]; }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string_view> names_;  // of the map's keys
  std::unordered_map<std::string, Symbol> symbols_;
};

struct ParsedTemplate {
  ScopedBody body;
  SymbolTable symbols;
};

// `heap` holds the literals and outlives the tree. `source`: normalised.
Outcome<ParsedTemplate> Parse(std::string_view source, Heap& heap);

}  // namespace kvgate::jinja
