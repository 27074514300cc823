// A ProviderModel is a provider with its prompt cache, as a client sees it: it answers with the
// tokens that it read, and refuses thinking whose prefix is not the one that it was made with. Each
// tenant has an account, and so a cache, of its own.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/plan_simulation.h"
#include "tests/gateway/prompt/rendered_prompt.h"

namespace kvgate::prompt::traffic {

class ProviderModel {
 public:
  ProviderModel(const std::string& provider, const std::string& model)
      : row_(simulation::Row(provider, model)),
        marked_(row_, kFirstByteUs),
        implicit_(row_, kFirstByteUs),
        increments_(row_, kFirstByteUs) {}

  simulation::Bill Send(const RenderedPrompt& prompt, int64_t now_us) {
    switch (row_.rules.breakpoints) {
      case ledger::BreakpointSyntax::kCacheControl:
        return marked_.Send(SegmentsOf(prompt, false), PlanOf(prompt), now_us);
      case ledger::BreakpointSyntax::kBreakpoint:
        return implicit_.Send(SegmentsOf(prompt, false), PlanOf(prompt), now_us);
      case ledger::BreakpointSyntax::kNone:
        break;
    }
    // Such a cache finds any part of a text, so its lines are told apart.
    return increments_.Send(SegmentsOf(prompt, true), PlanOf(prompt), now_us);
  }

  static ledger::reply::TokenUsage UsageOf(const simulation::Bill& bill) {
    ledger::reply::TokenUsage usage;
    usage.cache_read_tokens = static_cast<int64_t>(bill.read);
    usage.cache_write_tokens = static_cast<int64_t>(bill.written);
    usage.uncached_tokens =
        static_cast<int64_t>(bill.input) - usage.cache_read_tokens - usage.cache_write_tokens;
    usage.output_tokens = 50;
    return usage;
  }

 private:
  static constexpr int64_t kFirstByteUs = 1'000'000;
  static constexpr size_t kLineBytes = 160;  // shorter lines are counted together

  static std::vector<planner::PlanSegment> SegmentsOf(const RenderedPrompt& prompt, bool by_line) {
    std::vector<planner::PlanSegment> segments;
    const std::vector<parse::Identity> prefixes = PrefixesOf(prompt, Blocks::kShown);
    for (size_t i = 0; i < prompt.blocks.size(); ++i) {
      const RenderedBlock& block = prompt.blocks[i];
      planner::PlanSegment segment = {
          .section = block.section,
          .role = block.role,
          .content = block.content,
          .num_tokens = block.is_cleared ? 0 : static_cast<uint32_t>(block.bytes.size() / 4 + 1),
          .prefix = prefixes[i]};
      if (!by_line || block.bytes.size() < 2000) {
        segments.push_back(segment);
        continue;
      }
      AddLines(block.bytes, i > 0 ? prefixes[i - 1] : parse::Identity(), segment, segments);
    }
    return segments;
  }
  static void AddLines(std::string_view bytes, const parse::Identity& before,
                       planner::PlanSegment segment, std::vector<planner::PlanSegment>& segments) {
    const uint32_t all = segment.num_tokens;
    uint32_t counted = 0;
    std::string chain = ToHex(before);
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t least = std::min(begin + kLineBytes, bytes.size());
      const size_t end = std::min(bytes.find('\n', least), bytes.size());
      segment.prefix =
          simulation::IdentityOf(chain + std::string(bytes.substr(begin, end - begin)));
      segment.num_tokens =
          end == bytes.size() ? all - counted : static_cast<uint32_t>((end - begin) / 4);
      counted += segment.num_tokens;
      chain = ToHex(segment.prefix);
      segments.push_back(segment);
      begin = end + 1;
    }
  }
  static planner::Plan PlanOf(const RenderedPrompt& prompt) {
    planner::Plan plan;
    for (size_t i = 0; i < prompt.blocks.size(); ++i) {
      if (!prompt.blocks[i].is_marked) continue;
      plan.breakpoints.push_back({i, {.ttl_seconds = prompt.blocks[i].ttl_seconds}});
    }
    if (prompt.is_automatic) plan.automatic = parse::Breakpoint{};
    plan.prompt_cache_key = prompt.cache_key;
    return plan;
  }

  const ledger::PriceRow& row_;
  simulation::MessagesCache marked_;
  simulation::BreakpointCache implicit_;
  simulation::IncrementCache increments_;
};

// ThinkingBinder refuses a request that holds thinking behind another prefix than the one that the
// thinking was made with. Thinking itself may be left out, from one end or altogether.
class ThinkingBinder {
 public:
  // Returns why a request is refused; empty if it is taken.
  std::string Refusal(const RenderedPrompt& prompt) const {
    const std::vector<parse::Identity> prefixes = PrefixesOf(prompt, Blocks::kBound);
    std::string previous;
    for (size_t i = 0; i < prompt.blocks.size(); ++i) {
      const std::string& signature = prompt.blocks[i].signature;
      if (signature.empty()) continue;
      const auto bound = bound_.find(signature);
      if (bound == bound_.end()) return signature + " was never made";
      if (i == 0 || !(bound->second.prefix == prefixes[i - 1])) {
        return signature + " stands behind another prefix than the one that it was made with";
      }
      if (!previous.empty() && bound->second.previous != previous) {
        return "thinking is missing between " + previous + " and " + signature;
      }
      previous = signature;
    }
    return "";
  }
  // Binds the thinking of the answer to this prompt.
  void Bind(const std::string& signature, const RenderedPrompt& prompt) {
    const std::vector<parse::Identity> prefixes = PrefixesOf(prompt, Blocks::kBound);
    Binding binding = {.prefix = prefixes.empty() ? parse::Identity() : prefixes.back(),
                       .previous = ""};
    for (const RenderedBlock& block : prompt.blocks) {
      if (!block.signature.empty()) binding.previous = block.signature;
    }
    bound_[signature] = std::move(binding);
  }

 private:
  struct Binding {
    parse::Identity prefix;
    std::string previous;  // the thinking before it in its prompt
  };
  std::map<std::string, Binding> bound_;
};

}  // namespace kvgate::prompt::traffic
