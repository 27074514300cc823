#include "gateway/prompt/diagnose/cache_effects.h"

#include <algorithm>
#include <utility>

namespace kvgate::prompt::diagnose {

using parse::Section;

namespace {

constexpr std::array<Section, 3> kToolsFirst = {Section::kTools, Section::kSystem,
                                                Section::kMessages};

// Source: Anthropic's prompt caching page, "what invalidates the cache", 2026-10.
constexpr ParameterEffect kAnthropic[] = {
    {"speed", Section::kSystem, "\"standard\""},
    {"tool_choice", Section::kMessages, R"({"type":"auto"})"},
    {"thinking", Section::kMessages, R"({"type":"disabled"})"},
    {"output_config.effort", Section::kMessages, "\"high\""},
};

// Source: OpenAI's prompt caching guide, "settings that affect the prefix", 2026-10. An answer's
// schema is rendered in front of the system prompt. Responses and Chat Completions use different
// names.
constexpr ParameterEffect kOpenAi[] = {
    {"prompt_cache_key", Section::kTools, ""},
    {"service_tier", Section::kTools, "\"auto\""},
    {"reasoning.effort", Section::kTools, ""},
    {"reasoning_effort", Section::kTools, ""},
    {"text.verbosity", Section::kTools, "\"medium\""},
    {"verbosity", Section::kTools, "\"medium\""},
    {"parallel_tool_calls", Section::kTools, "true"},
    {"text.format", Section::kSystem, R"({"type":"text"})"},
    {"response_format", Section::kSystem, R"({"type":"text"})"},
};

// For servers that pass such parameters to the chat template.
constexpr ParameterEffect kTemplate[] = {
    {"prompt_cache_key", Section::kSystem, ""},
    {"thinking", Section::kSystem, ""},
    {"reasoning_effort", Section::kSystem, ""},
    {"chat_template_kwargs", Section::kSystem, ""},
    {"response_format", Section::kSystem, R"({"type":"text"})"},
};

constexpr CacheEffects kRows[] = {
    {.provider = "anthropic",
     .order = kToolsFirst,
     .needs_breakpoints = true,
     .switches_search = true,
     .media_breaks_turns = true,
     .parameters = kAnthropic},
    {.provider = "openai", .order = kToolsFirst, .parameters = kOpenAi},
    {.provider = "deepseek", .order = kToolsFirst, .parameters = kTemplate},
};

}  // namespace

std::array<Section, 3> RenderOrder(bool tools_after_system) {
  std::array<Section, 3> order = kToolsFirst;
  if (tools_after_system) std::swap(order[0], order[1]);
  return order;
}

CacheEffects CacheEffectsOf(std::string_view provider, dialect::form::Endpoint endpoint,
                            const ledger::CacheRules* rules) {
  const bool is_messages = endpoint == dialect::form::Endpoint::kMessages ||
                           endpoint == dialect::form::Endpoint::kCountTokens;
  const auto known = std::find_if(std::begin(kRows), std::end(kRows), [&](const CacheEffects& row) {
    return row.provider == provider;
  });
  CacheEffects effects = known != std::end(kRows) ? *known : kRows[is_messages ? 0 : 1];
  if (rules != nullptr) {
    effects.needs_breakpoints = rules->breakpoints == ledger::BreakpointSyntax::kCacheControl;
    effects.order = RenderOrder(rules->tools_after_system);
  }
  return effects;
}

}  // namespace kvgate::prompt::diagnose
