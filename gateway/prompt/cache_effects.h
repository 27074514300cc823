// CacheEffects: how a provider renders a prompt, and which part of what it has cached a change of a
// parameter breaks, as tables. Pure; any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "gateway/prompt/segment.h"
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

  // The place of a section in the order, 0 to 2.
  size_t RankOf(Section section) const;
};

// Of a provider that is not known: what most servers of that endpoint's dialect do.
const CacheEffects& CacheEffectsOf(std::string_view provider, upstream::Endpoint endpoint);

}  // namespace kvgate::prompt
