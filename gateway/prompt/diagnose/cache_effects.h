// Tables of how a provider renders a prompt (from the ledger's data) and which part of the cached
// prompt is lost when a parameter changes. All functions are pure and may be called from any
// thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/prices.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::diagnose {

struct ParameterEffect {
  std::string_view path;     // "output_config.effort"
  parse::Section from;       // the first section that is lost; those behind it are lost too
  std::string_view neutral;  // equivalent to leaving the parameter out; empty: no such value
};

struct CacheEffects {
  std::string_view provider;
  std::array<parse::Section, 3> order;  // in which sections are rendered
  bool needs_breakpoints = false;       // only prefixes that end at a cache breakpoint are cached
  bool switches_search = false;         // toggling web search or citations keeps the tools cached
  bool media_breaks_turns = false;  // the first image added, or last removed, loses all messages
  std::span<const ParameterEffect> parameters;
};

// The render order with tools in front of the system prompt, or behind it.
std::array<parse::Section, 3> RenderOrder(bool tools_after_system);

// `rules` are those of the model's row. If they are null or the provider is unknown, the result is
// what most servers of that endpoint's dialect do.
CacheEffects CacheEffectsOf(std::string_view provider, dialect::form::Endpoint endpoint,
                            const ledger::CacheRules* rules);

}  // namespace kvgate::prompt::diagnose
