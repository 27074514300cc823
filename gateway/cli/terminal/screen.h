// Screen: the whole terminal as a page that is drawn again and again, for programs that watch.
// While one lives, the other screen of the terminal is shown, without a cursor, and keys are read
// as they are pressed; its end, also by SIGINT or SIGTERM, gives the terminal back as it was.
// One at a time; not thread-safe, but for IsEnded.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include <termios.h>

namespace kvgate::cli::terminal {

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 24;
};

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Returns true if the output is a terminal.
  static bool IsThere();
  // As it is now: people change it.
  static ScreenSize Size();
  // Draws the lines from the top; those that do not fit are left out, and longer ones are cut by
  // the terminal. Lines may hold Styled text.
  void Draw(const std::vector<std::string>& lines);
  // Takes the keys pressed since the last call; q, Q, escape and Ctrl-C end.
  void ReadKeys();
  // Set once it is to end. A wait elsewhere may look at it from another thread.
  const std::atomic<bool>& is_ended() const;

 private:
  termios before_{};
  bool has_keys_ = false;  // the input is a terminal
};

enum class Style { kPlain, kBold, kDim, kGood, kWarning, kBad };
// Text in a style where `is_styled`, which is for terminals only; else as it is.
std::string Styled(std::string text, Style style, bool is_styled);
// Returns true if the output is a terminal that takes colours, and NO_COLOR is not set.
bool OutputTakesStyles();

}  // namespace kvgate::cli::terminal
