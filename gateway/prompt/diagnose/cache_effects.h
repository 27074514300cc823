// CacheEffects: how a provider renders a prompt (by the ledger's data), and which part of what it
// has cached a change of a parameter breaks, as tables. Pure; any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::prompt {

struct ParameterEffect {
  std::string_view path;     // "output_config.effort"
  Section from;              // the first section that is lost with it; those behind it are too
  std::string_view neutral;  // the value that means as much as none; empty: there is no such
};

struct CacheEffects {
  std::string_view provider;
  std::array<Section, 3> order;     // of rendering
  bool needs_markers = false;       // nothing is cached that no marker asks for
  bool switches_search = false;     // web search and citations are switches that spare the tools
  bool media_breaks_turns = false;  // the first image, or none any more, breaks all messages
  std::span<const ParameterEffect> parameters;
};

// Tools stand in front of the system prompt, or behind it.
std::array<Section, 3> RenderOrder(bool tools_after_system);

// `rules` of the model's row. Null, or a provider that is not known: what most servers of that
// endpoint's dialect do.
CacheEffects CacheEffectsOf(std::string_view provider, upstream::Endpoint endpoint,
                            const ledger::CacheRules* rules);

}  // namespace kvgate::prompt
