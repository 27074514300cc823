#include "gateway/cli/terminal/screen.h"

#include <fmt/format.h>

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kvgate::cli::terminal {
namespace {

// A signal handler can only reach a global.
std::atomic<bool> g_ended{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

void Put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Screen::Screen() {
  g_ended = false;
  struct sigaction action {};
  action.sa_handler = [](int) { g_ended.store(true); };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  has_keys_ = ::isatty(STDIN_FILENO) != 0 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  Put(kEnter);
}

Screen::~Screen() {
  Put(kLeave);
  if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

bool Screen::IsThere() { return ::isatty(STDOUT_FILENO) != 0; }

ScreenSize Screen::Size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

void Screen::Draw(const std::vector<std::string>& lines) {
  std::string out = "\x1b[H\x1b[?7l";  // from the top, without wrapping
  const size_t count = std::min(lines.size(), Size().rows);
  for (size_t i = 0; i < count; ++i) {
    out += lines[i];
    out += "\x1b[0m\x1b[K";
    if (i + 1 < count) out += "\r\n";
  }
  out += "\x1b[J\x1b[?7h";
  Put(out);
}

void Screen::ReadKeys() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (has_keys_ && ::poll(&input, 1, 0) > 0) {
    std::array<char, 64> keys{};
    const ssize_t size = ::read(STDIN_FILENO, keys.data(), keys.size());
    if (size <= 0) return;
    const std::string_view pressed(keys.data(), static_cast<size_t>(size));
    // An arrow begins with an escape, too.
    if (pressed.find_first_of("qQ\x03") != std::string_view::npos || pressed == "\x1b") {
      g_ended = true;
    }
  }
}

const std::atomic<bool>& Screen::is_ended() const { return g_ended; }

std::string Styled(std::string text, Style style, bool is_styled) {
  if (!is_styled || style == Style::kPlain) return text;
  constexpr std::array<const char*, 6> kCodes = {"", "1", "2", "32", "33", "31"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(style)], text);
}

bool OutputTakesStyles() {
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace kvgate::cli::terminal
