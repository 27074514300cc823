// SessionLocks: one request at a time writes a session. Others are told which turn they would miss,
// or are woken when it is free. Thread-safe; it must outlive the locks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::session::log {

class SessionLocks {
 public:
  struct Args {
    std::string_view tenant = {};
    std::string_view key = {};
    std::string turn = {};  // the id that the turn of this writer will have
    // Called once when the session may be free, from any thread; empty: nobody waits.
    std::function<void()> on_free = {};
    // It only adds an event, so that others wait for it instead of being refused.
    bool is_brief = false;
  };
  // What holds the session until it is released; or the turn that another writer is making.
  struct Outcome {
    std::shared_ptr<void> lock = {};  // null: it is taken
    std::string turn = {};            // of the writer that has it
    bool is_brief = false;            // as that one's
  };
  Outcome TryLock(Args args);
  // For a holder that waits for an event: while it admits them, one that only adds an event gets
  // the session too.
  void AdmitEvents(std::string_view tenant, std::string_view key, bool admits);
  size_t num_locked() const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Holder {
    std::string turn;
    bool is_brief = false;
    bool admits_events = false;
    std::vector<std::function<void()>> waiting;
  };
  void Release(const Key& key);

  mutable std::mutex mutex_;
  std::map<Key, Holder> holders_;
};

}  // namespace kvgate::session::log
