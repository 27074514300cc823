// WaitingLine: the sequences that hold no blocks yet, and who is next.
//
// Tenants take turns by what they have been served (start-time fair queueing, Goyal 1996: the one
// with the least service in tokens goes first; one that comes back does not bring credit along).
// Within a tenant a sequence that had to give up its blocks goes first, then short prompts, every
// fourth turn a long one; among the first few of a lane the one with most of its prompt in memory.
// Knows no blocks. Only Add and Candidates take memory; Add changes nothing when there is none, and
// sequences move between here and who runs them as nodes of lists. One thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/schedule/sequence.h"

namespace kvgate::schedule {

using SequenceList = std::list<std::unique_ptr<Sequence>>;

class WaitingLine {
 public:
  // Sets sequence->tenant: equal salts, equal numbers. Of tenants without sequences the last
  // thousand are remembered. Takes the sequence unless it throws std::bad_alloc.
  void Add(std::unique_ptr<Sequence>&& sequence);
  // Ahead of its tenant's others: it had been admitted before. Taken out of `from`.
  void AddPreempted(SequenceList& from, SequenceList::iterator sequence);
  // Takes one out because it has ended.
  std::unique_ptr<Sequence> Take(const Sequence& sequence);
  // Takes one out to run, to the end of `to`.
  void TakeTo(const Sequence& sequence, SequenceList& to);
  // A sequence that was taken has ended. REQUIRES: once for each.
  void OnEnded(const Sequence& sequence);

  // The first `count` in the order in which they should run; those that `skip` refuses are left
  // out. `num_cached` says how many tokens of a sequence's prompt are in memory.
  std::vector<Sequence*> Candidates(size_t count, const std::function<bool(const Sequence&)>& skip,
                                    const std::function<int(const Sequence&)>& num_cached);

  // The tenant was served this many tokens.
  void Charge(uint32_t tenant, int num_tokens);
  // In tokens, comparable between tenants.
  double service(uint32_t tenant) const { return tenants_[tenant].service; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Sequence* Find(RequestId id) const;
  // Some sequence; null: there is none.
  Sequence* Any() const;
  void ForEach(const std::function<void(const Sequence&)>& visit) const;
  size_t num_tenants() const { return by_salt_.size(); }

 private:
  enum LaneIndex { kPreempted, kShort, kLong, kNumLanes };
  struct Tenant {
    std::string salt = {};
    SequenceList lanes[kNumLanes] = {};
    double service = 0;
    int num_sequences = 0;  // waiting or taken and not ended
    int num_short_turns = 0;
    uint64_t idle_since = 0;  // in turns of going idle; while there is no sequence
  };
  struct Candidate {
    Sequence* sequence = nullptr;
    int num_cached = 0;
  };
  // Where a round of choosing has got to in one tenant.
  struct Cursor {
    uint32_t tenant = 0;
    double service = 0;
    int num_short_turns = 0;
    std::deque<Candidate> lanes[kNumLanes];  // what can still be chosen
    bool empty() const;
  };

  uint32_t NumberFor(const std::string& salt);
  double LeastService() const;
  void Enter(uint32_t number);
  SequenceList& LaneOf(const Sequence& sequence);
  SequenceList::iterator TurnOf(const Sequence& sequence);
  static Sequence* ChooseFrom(Cursor& cursor);

  std::unordered_map<std::string, uint32_t> by_salt_;
  std::deque<Tenant> tenants_;
  uint64_t num_idle_turns_ = 0;
  size_t size_ = 0;
};

}  // namespace kvgate::schedule
