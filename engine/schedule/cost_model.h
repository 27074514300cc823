// CostModel: predicts how long prefill takes here, and if restoring a prefix from disk, or copying
// it from host memory to a device, is quicker.
//
// Prefill is measured as it runs, in seconds per token by position, because attention makes each
// token slower than the one before it by a constant. Between and beyond the measured positions the
// cost is extended in straight lines. It knows no sequences. Engine thread only.
#pragma once

#include <array>
#include <cstdint>

namespace kvgate::schedule {

class CostModel {
 public:
  // Differences below this are scheduling noise of the machine, so no restore is skipped or given
  // up for less.
  static constexpr double kNoiseSeconds = 0.010;

  // Records a forward pass over num_rows rows at this mean position. Passes too small to tell the
  // cost of a row in a chunk are ignored, unless no larger one has been seen.
  void ObserveStep(int num_rows, double mean_position, double seconds);

  // Sets the added cost of a token over the one before it, as measured when the engine started. It
  // applies to positions that were never observed. A negative value counts as 0.
  void SetSlope(double seconds_per_position);

  bool has_prefill_speed() const { return num_observed_ > 0; }
  // Returns 0 until something was measured.
  double PrefillSeconds(int first_position, int num_tokens) const;
  // Returns how many tokens (whole blocks) from first_position on can be computed in `seconds`.
  int TokensWithin(int first_position, double seconds) const;
  // The speed at the beginning of a prompt; 0 until something was measured.
  double prefill_tokens_per_second() const;

  struct RestoreArgs {
    int first_position = 0;  // of the first block to restore
    int num_blocks = 0;      // stored consecutively
    uint64_t block_bytes = 0;
    uint64_t bytes_ahead = 0;     // queued before them
    double bytes_per_second = 0;  // of the disk, or of copies from the host; 0 means unknown
    double latency_seconds = 0;   // until the first byte
  };
  struct RestorePlan {
    int num_blocks = 0;          // to restore; the others are recomputed
    double compute_seconds = 0;  // predicted, to recompute the blocks to restore
    double restore_seconds = 0;  // predicted
  };
  // Returns how many leading blocks to restore so that the prompt is ready soonest. A disk that was
  // never measured is tried; the caller gives up a load that turns out slower than computing.
  RestorePlan PlanRestore(const RestoreArgs& args) const;

  struct LoadArgs {
    int first_position = 0;
    int num_tokens = 0;  // tokens that the load saves from being computed
    uint64_t bytes = 0;
    uint64_t bytes_ahead = 0;
    double bytes_per_second = 0;
    double latency_seconds = 0;
  };
  // Returns true if a load that is useful only as a whole is worth it.
  bool Pays(const LoadArgs& args) const;

  // Speed of copies from the host arena into the block pool, as measured when the engine started; 0
  // means that their cost is negligible.
  void SetHostSpeed(double bytes_per_second) { host_bytes_per_second_ = bytes_per_second; }
  double host_bytes_per_second() const { return host_bytes_per_second_; }

 private:
  // Buckets of positions by powers of two: [0, 512), [512, 1024), [1024, 2048) ...
  static constexpr int kNumBuckets = 16;
  static constexpr int kFirstBucketTokens = 512;
  static int BucketOf(double position);
  struct Bucket {
    double seconds_per_token = 0;  // 0 if never observed
    double position = 0;           // mean of the observed positions
    int num_rows = 0;              // of the largest pass observed
  };
  // A linear piece of the cost: seconds_per_token at `position`, changing by slope per position.
  struct Piece {
    double end = 0;  // the next piece begins here
    double position = 0;
    double seconds_per_token = 0;
    double slope = 0;
    double Integral(double first, double last) const;
  };
  void FitPieces();

  std::array<Bucket, kNumBuckets> buckets_{};
  std::array<Piece, kNumBuckets + 1> pieces_{};
  int num_pieces_ = 0;
  double slope_ = 0;  // used beyond the observed positions
  int num_observed_ = 0;
  double host_bytes_per_second_ = 0;
};

}  // namespace kvgate::schedule
