// WaitingQueue: holds the sequences that have no blocks yet and chooses the next ones to run.
//
// Tenants take turns by the service they received (start-time fair queueing, Goyal 1996: the tenant
// with the least service in tokens goes first; a returning tenant brings no credit along). Within a
// tenant, a preempted sequence goes first, then short prompts, every fourth turn a long one; among
// the first few of a lane the one with the most cached prompt tokens goes first. It knows no
// blocks. Only Add and Candidates take memory; Add changes nothing if it throws, and sequences move
// between this line and the running list as list nodes. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/schedule/sequence.h"

namespace kvgate::schedule {

class WaitingQueue {
 public:
  // Sets sequence->tenant; equal salts give equal numbers. Remembers 1024 tenants, and
  // more only if all of them have sequences. Takes the sequence unless it throws std::bad_alloc.
  void Add(std::unique_ptr<Sequence>&& sequence);
  // Moves a preempted sequence from `from` to the front of its tenant's line.
  void AddPreempted(SequenceList& from, SequenceList::iterator sequence);
  // Removes a sequence because it has ended.
  std::unique_ptr<Sequence> Take(const Sequence& sequence);
  // Moves a sequence that is going to run to the end of `to`.
  void TakeTo(const Sequence& sequence, SequenceList& to);
  // A sequence that was taken has ended. REQUIRES: called once for each.
  void OnEnded(const Sequence& sequence);

  // Returns the first `count` sequences in the order in which they should run, without those for
  // which `skip` returns true. `num_cached` returns how many tokens of a sequence's prompt are in
  // memory.
  std::vector<Sequence*> Candidates(size_t count, const std::function<bool(const Sequence&)>& skip,
                                    const std::function<int(const Sequence&)>& num_cached);

  // Adds to the service that the tenant received.
  void Charge(uint32_t tenant, int num_tokens);
  // The tenant's service in tokens, comparable between tenants.
  double service(uint32_t tenant) const { return tenants_[tenant].service; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Sequence* Find(RequestId id) const;
  // Returns any waiting sequence; null if there is none.
  Sequence* Any() const;
  void ForEach(const std::function<void(const Sequence&)>& visit) const;
  size_t num_tenants() const { return by_salt_.size(); }

 private:
  enum LaneIndex { kPreempted, kShort, kLong, kNumLanes };
  struct Tenant {
    std::string salt = {};
    SequenceList lanes[kNumLanes] = {};
    double service = 0;
    int num_sequences = 0;  // waiting or running
    int num_short_turns = 0;
    uint64_t idle_since = 0;  // value of num_idle_turns_ when its last sequence ended
  };
  struct Candidate {
    Sequence* sequence = nullptr;
    int num_cached = 0;
  };
  // Progress of one round of choosing within one tenant.
  struct Cursor {
    uint32_t tenant = 0;
    double service = 0;
    int num_short_turns = 0;
    std::deque<Candidate> lanes[kNumLanes];  // sequences not chosen yet
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
