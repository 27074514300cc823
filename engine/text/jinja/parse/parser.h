// Parser: builds the syntax tree from tokens. It checks everything that is known without data:
// syntax, nesting, names of filters and tests, and where break and loop may appear.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/jinja/syntax/ast.h"
#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/syntax/token.h"

namespace kvgate::jinja::parse {

// Numbers the names of a template's variables.
class SymbolTable {
 public:
  syntax::Symbol Add(std::string_view name);
  // Returns size() if there is no such name.
  syntax::Symbol Find(std::string_view name) const;
  std::string_view NameOf(syntax::Symbol symbol) const { return names_[symbol]; }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string_view> names_;  // views of the map's keys
  std::unordered_map<std::string, syntax::Symbol> symbols_;
};

struct ParsedTemplate {
  syntax::ScopedBody body;
  SymbolTable symbols;
};

// `heap` holds the literals and must outlive the tree. `source` must be normalised.
syntax::Outcome<ParsedTemplate> Parse(std::string_view source, value::Heap& heap);

}  // namespace kvgate::jinja::parse
