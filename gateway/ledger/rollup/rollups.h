// Rollups sums requests by minute, hour and day, of everybody and of each tenant, and hands out the
// rows to be written beside the records in one step. A step writes either a note, one short row of
// what it counted, or the sums: all rows that have changed since they were written last, in place
// of the notes. So the sums hold every step's requests after a crash, and are not written again
// with each step. Rows that are not in memory are read before they are added to. Memory is bounded:
// what is not in use is dropped once it is written.
//
// Names beyond kNamesMax of one group count as "other". Not thread-safe; it may wait for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/rollup/batch.h"
#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/rollup/entry.h"
#include "gateway/ledger/rollup/rollup_key.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger::rollup {

class Rollups {
 public:
  struct Options {
    size_t buckets_max = 32'768;  // in memory, beside those that are not written yet
    size_t retire_max = 4'000;    // rows that one call of TakeOld returns
  };
  // `meta` must outlive it.
  Rollups(const store::meta::MetaStore& meta, const Options& options)
      : meta_(meta), options_(options) {}

  // Takes the notes that an earlier process has left.
  Result<void> Restore();
  // Counts the entries of one step and returns the row that notes them. If the store refuses it,
  // the next call of Note or Sum forgets them.
  std::vector<store::meta::MetaWrite> Note(std::span<const Entry> entries);
  // Counts the entries of one step and returns all rows that have changed, and deletions of the
  // notes that are in them. If the store refuses them, they are returned again with later ones. If
  // a row cannot be read, nothing is added.
  Result<std::vector<store::meta::MetaWrite>> Sum(std::span<const Entry> entries);
  // The store has what the last Note or Sum returned.
  void Accept();
  // True if there is what no sums in the store count.
  bool has_unwritten() const { return !notes_.empty() || !changed_.empty(); }
  // Returns deletions of rows that are older than their step's retention; none if nothing is due.
  Result<std::vector<store::meta::MetaWrite>> TakeOld(int64_t now_us);

 private:
  struct Place {
    Step step = Step::kMinute;
    int64_t minute = 0;
    std::string scope = {};
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Name = Batch::Name;
  struct Held {
    std::map<Name, Bucket> buckets;
    std::set<Name> changed;
    std::map<By, size_t> num_names;
    size_t num_counted = 0;  // of its buckets, in num_buckets_
    uint64_t used = 0;       // the number of the Sum that used it last
  };

  Result<void> Load(const Batch& batch);
  Result<void> LoadPlace(const Place& place);
  void AcceptSums();
  static void AddTo(Held& held, const Name& name, const Bucket& bucket);
  void DropUnused();

  const store::meta::MetaStore& meta_;
  const Options options_;
  std::map<Place, Held> held_;
  std::set<Place> changed_;  // those with rows that are not written yet
  size_t num_buckets_ = 0;
  uint64_t num_sums_ = 0;
  Batch step_;                      // what the last Note counted, until it is accepted
  Batch noted_;                     // what accepted notes hold
  std::vector<std::string> notes_;  // the keys of those that the store has
  uint64_t next_note_ = 0;
  bool is_note_ = false;                 // the last call was Note
  std::map<Step, std::string> retired_;  // the key that was deleted last
  int64_t retire_at_us_ = 0;
};

}  // namespace kvgate::ledger::rollup
