// ModelWatch: notices that the file of a loaded model was written, also when nobody asks the model
// anything. Steps prove each row that they read of the file (model::EmbeddingTable), so no answer
// depends on this; it is for who watches the server: a model that can no longer be used is said to
// be so within a second or two, and not when the next request comes.
//
// A look costs one fstat. Only when the file's size or times have moved the rows are read and
// compared, at most once for each state of the file. One thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include <kvgate/result.h>

#include "engine/model/embedding_table.h"

namespace kvgate::engine {

class ModelWatch {
 public:
  struct Options {
    std::chrono::milliseconds interval{1000};  // between two looks; more than 0
    // Called at most once, on the watch's thread: what is read of the file is not what was loaded.
    std::function<void(const Error&)> on_change;
  };
  // The table outlives the watch. REQUIRES: it lies in a file.
  ModelWatch(const model::EmbeddingTable& table, Options options);

 private:
  void Run(const std::stop_token& stop);
  // False: there is nothing more to watch.
  bool Look(const std::stop_token& stop);

  const model::EmbeddingTable& table_;
  const Options options_;
  model::FileIdentity seen_;
  std::jthread thread_;  // last: starts when the rest is there
};

}  // namespace kvgate::engine
