// Rollups sums requests by minute, hour and day, of everybody and of each tenant, and hands out the
// rows to be written beside the records in one step. Rows that are not in memory are read before
// they are added to. Memory is bounded: what is not in use is dropped once it is written.
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
#include <utility>
#include <vector>

#include "base/result.h"
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

  // Adds the entries and returns the changed rows. They are returned again with later ones until
  // Accept is called. If a row cannot be read, nothing is added.
  Result<std::vector<store::meta::MetaWrite>> Fold(std::span<const Entry> entries);
  // The store has the rows that the last Fold returned.
  void Accept();
  // Returns deletions of rows that are older than their step's retention; none if nothing is due.
  Result<std::vector<store::meta::MetaWrite>> TakeOld(int64_t now_us);

 private:
  struct Place {
    Step step = Step::kMinute;
    int64_t minute = 0;
    std::string scope = {};
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Name = std::pair<By, std::string>;
  struct Held {
    std::map<Name, Bucket> buckets;
    std::set<Name> changed;
    std::map<By, size_t> num_names;
    size_t num_counted = 0;  // of its buckets, in num_buckets_
    uint64_t used = 0;       // the number of the Fold that used it last
  };
  // The sums of one Fold, of one tenant and minute.
  using Batch = std::map<std::pair<std::string, int64_t>, std::map<Name, Bucket>>;

  Result<void> Load(const Batch& batch);
  Result<void> LoadPlace(const Place& place);
  static void AddTo(Held& held, const Name& name, const Bucket& bucket);
  void DropUnused();

  const store::meta::MetaStore& meta_;
  const Options options_;
  std::map<Place, Held> held_;
  std::set<Place> changed_;  // those with rows that are not written yet
  size_t num_buckets_ = 0;
  uint64_t num_folds_ = 0;
  std::map<Step, std::string> retired_;  // the key that was deleted last
  int64_t retire_at_us_ = 0;
};

}  // namespace kvgate::ledger::rollup
