// What runs while a template is evaluated: scopes, loops, macros.
#pragma once

#include <span>

#include "engine/jinja/ast.h"
#include "engine/jinja/value.h"

namespace kvgate::jinja {

struct Binding {
  Symbol name;
  Value value;
};

// The variables of one scope; looked up outwards.
struct Scope {
  Scope* parent = nullptr;
  Binding* bindings = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;
  bool captured = false;  // a macro lives on it: it is not used again for the next iteration

  // Null when it has no such name.
  Value* Find(Symbol name) const {
    for (uint32_t i = 0; i < size; ++i) {
      if (bindings[i].name == name) return &bindings[i].value;
    }
    return nullptr;
  }
  void Set(Heap& heap, Symbol name, const Value& value);
};

struct Macro {
  const MacroDefinition* definition;
  Scope* scope;  // where it was defined
};

// A for statement while it runs. With a filter, an item is tested when the one before it is done
// with, as Jinja2 does, unless somebody asks for what comes later.
struct Loop {
  const ForStatement* statement;
  Scope* scope;  // around the loop
  std::span<const Value> items;
  size_t next = 0;  // the item to look at next
  bool filters = false;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value previous = {};
  Value current = {};
  Value peeked = {};  // the next item, when it was asked for; missing: not yet
  const List* last_changed = nullptr;
};

}  // namespace kvgate::jinja
