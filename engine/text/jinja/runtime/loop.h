// Run-time objects of the evaluation: scopes, loops, macros.
#pragma once

#include <span>

#include "engine/text/jinja/syntax/ast.h"
#include "engine/text/jinja/value/value.h"

namespace kvgate::jinja::runtime {

struct Binding {
  syntax::Symbol name;
  value::Value value;
};

// The variables of one scope. Look-ups continue in the parent.
struct Scope {
  Scope* parent = nullptr;
  Binding* bindings = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;
  bool captured = false;  // a macro refers to it, so the next iteration must not reuse it

  // Returns null if this scope has no such name.
  value::Value* Find(syntax::Symbol name) const {
    for (uint32_t i = 0; i < size; ++i) {
      if (bindings[i].name == name) return &bindings[i].value;
    }
    return nullptr;
  }
  void Set(value::Heap& heap, syntax::Symbol name, const value::Value& value);
};

struct Macro {
  const syntax::MacroDefinition* definition;
  Scope* scope;  // the scope of its definition
};

// A running for statement. With a filter, an item is tested after the body of the previous one, as
// in Jinja2, unless the template asks for later items earlier.
struct Loop {
  const syntax::ForStatement* statement;
  Scope* scope;  // the scope around the loop
  std::span<const value::Value> items;
  size_t next = 0;  // index of the next item to look at
  bool filters = false;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  value::Value previous = {};
  value::Value current = {};
  value::Value peeked = {};  // the next item if it was peeked at; else missing
  const value::List* last_changed = nullptr;
};

}  // namespace kvgate::jinja::runtime
