// ModelWatch: notices that the file of a loaded model was written, even while the model serves no
// request. No answer depends on it, because a step verifies each row that it reads from the file
// (model::EmbeddingTable). It exists for operators: the server reports an unusable model within a
// second or two instead of at the next request.
//
// A check costs one fstat. Only if the file's size or times have changed are the rows read and
// compared, at most once for each state of the file. It has its own thread.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/result.h"
#include "engine/model/embedding_table.h"

namespace kvgate::engine {

class ModelWatch {
 public:
  struct Options {
    std::chrono::milliseconds interval{1000};  // between two checks; must be positive
    // Called at most once, on the watch's thread, when the rows in the file are no longer those
    // loaded.
    std::function<void(const Error&)> on_change;
  };
  // The table must outlive the watch. REQUIRES: the table lies in a file.
  ModelWatch(const model::EmbeddingTable& table, Options options);

 private:
  void Run(const std::stop_token& stop);
  // Checks the file once. Returns false if there is nothing more to watch.
  bool Look(const std::stop_token& stop);

  const model::EmbeddingTable& table_;
  const Options options_;
  modelfile::FileIdentity seen_;
  std::jthread thread_;  // declared last: it starts when the other members exist
};

}  // namespace kvgate::engine
