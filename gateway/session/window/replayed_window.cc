#include "gateway/session/window/replayed_window.h"

#include "gateway/session/window/window.h"

namespace kvgate::session::window {
namespace {

class Replay {
 public:
  explicit Replay(const ReplayArgs& args) : args_(args), tokens_(args.fixed) {}

  void Add(size_t index) {
    const Unit& unit = args_.units[index];
    const int64_t last = newest_;
    newest_ = unit.tokens;
    all_ += unit.tokens;
    tokens_ += unit.tokens;
    if (tokens_ <= args_.hard) return;
    const Thresholds limits =
        ThresholdsOf({.high = args_.hard}, {.context = args_.hard,
                                            .growth = all_ / static_cast<int64_t>(index + 1),
                                            .least = args_.fixed + last + newest_});
    while (tokens_ > limits.low && kept_.first < index) LeaveOutOne();
  }

  Replayed kept() const { return kept_; }

 private:
  const Unit& UnitAt(size_t index) const { return args_.units[index]; }

  void LeaveOutOne() {
    const size_t gone = kept_.first++;
    const bool is_next_user = UnitAt(kept_.first).is_user;
    if (UnitAt(gone).is_user) {
      // What follows it answers it, so it stays in front.
      if (!is_next_user) {
        kept_.user = gone;
        return;
      }
    } else if (is_next_user && kept_.user) {
      tokens_ -= UnitAt(*kept_.user).tokens;
      kept_.user.reset();
    }
    tokens_ -= UnitAt(gone).tokens;
  }

  const ReplayArgs& args_;
  Replayed kept_;
  int64_t tokens_ = 0;  // of the prompt
  int64_t all_ = 0;     // of all units so far
  int64_t newest_ = 0;
};

}  // namespace

Replayed ReplayWindow(const ReplayArgs& args) {
  Replay replay(args);
  for (size_t i = 0; i < args.units.size(); ++i) replay.Add(i);
  return replay.kept();
}

}  // namespace kvgate::session::window
