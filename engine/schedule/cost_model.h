// CostModel: how long prefill takes here, and whether restoring a prefix from disk, or copying it
// from host memory to a device, beats it.
//
// Prefill is measured as it runs: seconds per token by position, because attention makes later
// tokens dearer: each by as much as the one before it. Between measured positions, and beyond them,
// the cost goes on in a straight line. Knows no sequences. One thread: the engine's.
#pragma once

#include <array>
#include <cstdint>

namespace kvgate::schedule {

class CostModel {
 public:
  // Differences below this say more about the machine's scheduler than about disk or model: a
  // restore is not left out or given up for less.
  static constexpr double kNoiseSeconds = 0.010;

  // A forward pass over num_rows rows at this mean position. Passes too small to say what a row of
  // a chunk costs are ignored, unless nothing better has been seen.
  void ObserveStep(int num_rows, double mean_position, double seconds);

  // By how much a token is dearer than the one before it, as measured when the engine started: for
  // positions that nothing has been computed at. Negative counts as 0.
  void SetSlope(double seconds_per_position);

  bool has_prefill_speed() const { return num_observed_ > 0; }
  // 0 until something was measured.
  double PrefillSeconds(int first_position, int num_tokens) const;
  // The whole blocks from there on that can be computed in `seconds`, in tokens.
  int TokensWithin(int first_position, double seconds) const;
  // At the beginning of a prompt; 0 until something was measured.
  double prefill_tokens_per_second() const;

  struct RestoreArgs {
    int first_position = 0;  // of the first block to restore
    int num_blocks = 0;      // to be had, in a row
    uint64_t block_bytes = 0;
    uint64_t bytes_ahead = 0;     // queued before them
    double bytes_per_second = 0;  // of the disk, or of copies from the host; 0: not known
    double latency_seconds = 0;   // until the first byte
  };
  struct RestorePlan {
    int num_blocks = 0;          // to restore; the rest of them is recomputed
    double compute_seconds = 0;  // of recomputing those to restore
    double restore_seconds = 0;  // predicted
  };
  // The leading blocks to restore so that the prompt is ready soonest. A disk that was never
  // measured is tried: the caller gives a load up that turns out slower than computing.
  RestorePlan PlanRestore(const RestoreArgs& args) const;

  struct LoadArgs {
    int first_position = 0;
    int num_tokens = 0;  // that need not be computed after the load
    uint64_t bytes = 0;
    uint64_t bytes_ahead = 0;
    double bytes_per_second = 0;
    double latency_seconds = 0;
  };
  // Whether a load that is good only as a whole is worth it.
  bool Pays(const LoadArgs& args) const;

  // Of copies from the host arena into the block pool, as measured when the engine started; 0: they
  // cost next to nothing.
  void SetHostSpeed(double bytes_per_second) { host_bytes_per_second_ = bytes_per_second; }
  double host_bytes_per_second() const { return host_bytes_per_second_; }

 private:
  // Positions by powers of two: [0, 512), [512, 1024), [1024, 2048) ...
  static constexpr int kNumBuckets = 16;
  static constexpr int kFirstBucketTokens = 512;
  static int BucketOf(double position);
  struct Bucket {
    double seconds_per_token = 0;  // 0: not seen
    double position = 0;           // mean of those it was seen at
    int num_rows = 0;              // of the largest pass
  };
  // A straight piece of the cost over positions: as much at `position`, and so much more behind it.
  struct Piece {
    double end = 0;  // where the next one begins
    double position = 0;
    double seconds_per_token = 0;
    double slope = 0;
    double Integral(double first, double last) const;
  };
  void FitPieces();

  std::array<Bucket, kNumBuckets> buckets_{};
  std::array<Piece, kNumBuckets + 1> pieces_{};
  int num_pieces_ = 0;
  double slope_ = 0;  // where nothing better is known
  int num_observed_ = 0;
  double host_bytes_per_second_ = 0;
};

}  // namespace kvgate::schedule
