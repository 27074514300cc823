// EmbeddingWork: passages of one session on their way to their vectors: which are sent together,
// and the rows that their vectors become. Who sends them, and to whom, it does not know. Plan and
// Store wait for the disk. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/session/retrieval/embedding_pace.h"
#include "gateway/session/retrieval/passage_index.h"
#include "gateway/session/retrieval/vector_book.h"

namespace kvgate::session::retrieval {

class EmbeddingWork {
 public:
  // What is embedded after one turn. A turn of more is done alone.
  static constexpr size_t kTextsMax = 1024;
  static constexpr size_t kBytesMax = size_t{512} << 10;
  // What is sent in one request.
  static constexpr size_t kRequestTextsMax = 64;
  static constexpr size_t kRequestBytesMax = size_t{32} << 10;

  struct Args {
    VectorBook& book;  // outlives it
    std::unique_ptr<EmbeddingPace::Ticket> ticket;
    std::string tenant = {};
    std::string key = {};
    std::vector<TurnTexts> turns = {};  // of which those in front are done first
    size_t dimensions = 0;              // vectors of others are made again; 0: none are
  };
  explicit EmbeddingWork(Args args) : args_(std::move(args)) {}

  const std::string& tenant() const { return args_.tenant; }
  const std::string& key() const { return args_.key; }
  const std::string& model() const { return args_.book.model(); }

  // Leaves out turns whose vectors the book has, and what is too much for once.
  Result<void> Plan();
  // The texts of the next request; empty: there are no more. Call Take before it is called again.
  // REQUIRES: Plan.
  std::vector<std::string> Next();
  // Their vectors.
  void Take(std::vector<Meaning> meanings);
  // Keeps those of all turns that are complete.
  Result<void> Store();

 private:
  Args args_;
  std::vector<std::vector<Meaning>> made_;  // of the turns, in their order
  size_t num_asked_ = 0;                    // texts of the last request
  size_t num_stored_ = 0;                   // turns
};

}  // namespace kvgate::session::retrieval
