// Templates learns from traffic which lines of prompts are volatile, as log miners do (Drain,
// Spell): online, in one pass, bounded. For each tenant, model and place it keeps the lines that
// changed within conversations, each with how often it changed and what a change would cost.
//
// A line becomes a slot when its values change within a conversation (a user's line when they do so
// for the second time), or when its words do for the third time. A line that only differs between
// conversations is none. The expected cost decides if a slot moves behind the stable prefix or
// keeps its place. No value is kept, only hashes and words. A store outside can take what has
// changed, and give it back to a later process (gateway/service/template_store).
//
// Thread-safe. Nothing is shared between tenants. The least recently used templates leave first,
// but those of a tenant that holds more than half of the memory before all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/templates/slot_set.h"
#include "gateway/prompt/templates/template.h"

namespace kvgate::prompt::templates {

// A line that changed within a conversation.
struct Observation {
  LineForm before;
  LineForm now;
  LineChange change = LineChange::kValues;
  std::string pattern;        // of `now`, masked
  uint32_t line_tokens = 0;   // estimated
  uint32_t stake_tokens = 0;  // of the prefix that misses the cache if the line changes
  bool is_first = true;       // the line's first change in this conversation
};
// A slot in a conversation's first request.
struct Beginning {
  uint64_t slot = 0;
  uint64_t line = 0;  // the hash of its line
};
// What one request has taught.
struct Lesson {
  std::vector<Observation> changes;
  std::vector<Beginning> beginnings;
  bool empty() const { return changes.empty() && beginnings.empty(); }
};

class Templates {
 public:
  struct Options {
    size_t bytes_max = size_t{64} << 20;
    size_t slots_max = 256;  // for each tenant and model
  };
  struct Scope {
    parse::Identity tenant;
    std::string model;
  };
  static Scope ScopeOf(std::string_view tenant, std::string_view model);

  explicit Templates(const Options& options);
  ~Templates();

  // Returns the slots known now, for a conversation that begins. If `is_used` is false, they do not
  // count as used.
  std::shared_ptr<const SlotSet> Known(const Scope& scope, bool is_used = true);
  // Returns the id of the slot that the line is once this change is counted; 0 if lines of its
  // place have to change more often for that.
  uint64_t SlotAfter(const Scope& scope, const LineForm& before, const LineForm& now,
                     LineChange change) const;
  void Learn(const Scope& scope, const Lesson& lesson);

  // What has been learnt for one tenant and model.
  struct Learnt {
    Scope scope;
    std::vector<Template> templates;  // last used first
  };
  // Lists the templates of a tenant, those of the model that was used last first.
  std::vector<Learnt> List(std::string_view tenant) const;

  // Identifies a tenant and model.
  static parse::Identity KeyOf(const Scope& scope);
  struct Changes {
    std::vector<Learnt> learnt;
    std::vector<parse::Identity> left;  // keys of those taken or restored before, and evicted since
  };
  // Returns what has changed since the last call; the first one returns all but what was restored.
  Changes TakeChanged();
  // Adds what an earlier process has learnt, as if it had been used before all that is known here,
  // and without counting as changed. What is known here of the same tenant and model stays.
  void Restore(Learnt learnt);
  // Takes in what another gateway has learnt, without counting as changed: lines that are not known
  // here, and of a line that is, whatever has seen more changes of it.
  void Merge(Learnt learnt);

  size_t num_bytes() const;

 private:
  struct Model;
  using Models = std::list<Model>;

  static Learnt LearntOf(const Model& model);
  Model& FindOrAddLocked(const Scope& scope);
  void ObserveLocked(Model& model, const Observation& observation);
  void BeginLocked(Model& model, const Beginning& beginning);
  void Count(Model& model, int64_t bytes);
  void MakeRoomLocked();

  const Options options_;
  mutable std::mutex mutex_;
  Models models_;  // last used first
  std::unordered_map<parse::Identity, Models::iterator> by_scope_;
  std::unordered_map<parse::Identity, size_t> tenant_bytes_;
  // Both are bounded by the models: `left_` names only those that a store had when it last asked.
  std::unordered_set<parse::Identity> changed_;
  std::unordered_set<parse::Identity> left_;
  parse::Identity largest_;  // the last tenant that exceeded half of bytes_max
  size_t bytes_ = 0;
};

}  // namespace kvgate::prompt::templates
