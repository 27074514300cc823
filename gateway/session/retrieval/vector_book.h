// VectorBook: the vectors of turns' passages, durable and sealed in the meta store, a row for each
// turn. They can be made again: what is damaged, too old to be read or too much is deleted. Tenants
// share nothing. Thread-safe; it waits for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/retrieval/meaning.h"
#include "store/meta/meta_store.h"

namespace kvgate::session::retrieval {

class VectorBook {
 public:
  struct Place {
    std::string_view tenant = {};
    std::string_view session = {};  // its key
  };
  struct Options {
    store::meta::MetaStore& meta;  // outlives the book
    // The model whose vectors are kept; another one's are none, and are replaced.
    std::string model = {};
    // Asked about what is written, and about what is there now and then: vectors without their turn
    // go. Empty: all turns are there.
    std::function<bool(const Place& place, std::string_view turn)> has_turn = {};
    // Of all rows. Beyond it those of a session go that was not written to for longest; one of a
    // tenant that has more than half of it first.
    size_t bytes_max = size_t{256} << 20;
  };
  // Looks through all rows. Drops damaged ones and those of sessions that are gone; seals anew, and
  // renames, what an older secret has sealed. Those whose secret is missing stay.
  static Result<std::unique_ptr<VectorBook>> Open(Options options);

  const std::string& model() const { return options_.model; }

  // The vectors of a turn's passages, if they are kept; `texts` are those passages, so that vectors
  // of another division are none. A damaged row is deleted.
  Result<std::optional<std::vector<Meaning>>> Get(const Place& place, std::string_view turn,
                                                  std::span<const std::string> texts);
  // Those of all turns of a session, in one pass. `texts_of` returns a turn's passages.
  using TextsOf = std::function<std::vector<std::string>(const std::string& turn)>;
  using Visit = std::function<void(const std::string& turn, std::vector<Meaning> meanings)>;
  Result<void> ForEach(const Place& place, const TextsOf& texts_of, const Visit& visit);

  // Keeps them, durably on return, unless the turn is gone. REQUIRES: as many meanings as texts.
  Result<void> Put(const Place& place, std::string_view turn, std::span<const std::string> texts,
                   std::span<const Meaning> meanings);
  // Deletes those of a session, whose turns are gone already.
  Result<void> Remove(const Place& place);

  size_t bytes() const;

 private:
  struct Row;
  // Of a session's rows.
  struct Kept {
    size_t bytes = 0;
    uint64_t last_written = 0;
  };
  explicit VectorBook(Options options) : options_(std::move(options)) {}
  Result<void> Restore();
  std::string KeyOf(const Place& place, std::string_view turn) const;
  std::string PrefixOf(const Place& place) const;
  Result<Row> Read(std::string_view key, std::string_view value) const;
  std::string Write(const Row& row, std::string_view key) const;
  // Reads a row at the start. Returns true if all of its session are to be read so.
  Result<bool> Renew(const std::string& key);
  Result<void> RenewSession(const std::string& prefix);
  Result<void> Delete(const std::string& key);
  // REQUIRES, of these: mutex_ held.
  Result<void> DeleteSession(const std::string& prefix);
  Result<void> MakeRoom(const std::string& prefix, size_t bytes);
  // Drops a session that is gone, if the next one in turn is.
  Result<void> LookAtOne();
  void Account(std::string_view key, size_t before, size_t after);

  const Options options_;
  mutable std::mutex mutex_;          // held by writers
  std::map<std::string, Kept> kept_;  // by the beginnings of their keys
  size_t bytes_ = 0;
  uint64_t num_writes_ = 0;
  std::string looked_at_;  // the session that was last looked at
};

}  // namespace kvgate::session::retrieval
