#include "gateway/session/summary/summary_prompt.h"

#include <fmt/format.h>

#include <utility>

#include "base/digest.h"
#include "base/regular_file.h"

namespace kvgate::session::summary {
namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kFileBytesMax = size_t{64} << 10;
constexpr int kVersion = 1;  // rises with every change of kText
constexpr std::string_view kText =
    "The conversation grows beyond its window. Its oldest part will be taken out and a summary "
    "will "
    "stand in its place. Write that summary now; it is all that will be known of that part.\n\n"
    "Summarise {{part}}. Messages from the one on that begins with \"{{kept_from}}\" stay as they "
    "are: do not repeat them.\n\n";
constexpr int kWholeVersion = 1;  // rises with every change of kWhole
constexpr std::string_view kWhole =
    "The conversation will be taken out, and a summary will stand in its place: you will go on "
    "from "
    "that alone. Write it now, so that nothing has to be asked or done again.\n\n"
    "Summarise {{part}}.\n\n";
// Of both; a change of it is one of both.
constexpr std::string_view kHeadings =
    "If the conversation begins with a <summary>, merge it: keep what still holds, change what has "
    "changed, drop what is done and will not be needed. Do not call tools, do not answer the last "
    "message, and write nothing but the summary, in at most {{tokens}} tokens, under these "
    "headings, in short lines that each stand for themselves; leave a heading out if nothing "
    "belongs under it:\n\n"
    "## Goals\n"
    "the user's aims and the limits that were set, in the user's words where they matter\n"
    "## Decisions\n"
    "what was decided, and why\n"
    "## Facts\n"
    "names, numbers, identifiers, commands, errors and results that may be needed again, exactly "
    "as "
    "they were written\n"
    "## Open ends\n"
    "what is under way, what was promised, what failed, and the next step\n"
    "## Files\n"
    "paths that were read or changed, and what is in them or became of them";
constexpr std::string_view kAbove = "everything above that is not kept";

// Calls `on_word` with each {{word}}, and `on_text` with what is between them.
template <typename OnText, typename OnWord>
void Split(std::string_view text, const OnText& on_text, const OnWord& on_word) {
  while (true) {
    const size_t begin = text.find("{{");
    const size_t end = begin == std::string_view::npos ? begin : text.find("}}", begin);
    on_text(text.substr(0, end == std::string_view::npos ? text.size() : begin));
    if (end == std::string_view::npos) return;
    on_word(text.substr(begin + 2, end - begin - 2));
    text.remove_prefix(end + 2);
  }
}

Error Unusable(const std::string& file, std::string_view why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("sessions.summary_prompt: {} {}", file, why));
}

}  // namespace

SummaryPrompt::SummaryPrompt()
    : SummaryPrompt(fmt::format("builtin@{}", kVersion), std::string(kText).append(kHeadings)) {}

SummaryPrompt SummaryPrompt::OfWhole(std::string_view instructions) {
  if (instructions.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return SummaryPrompt(fmt::format("compaction@{}", kWholeVersion),
                         std::string(kWhole).append(kHeadings));
  }
  SummaryPrompt prompt("caller", "");
  prompt.behind_ = instructions;
  return prompt;
}

Result<SummaryPrompt> SummaryPrompt::Load(const std::string& file) {
  const Result<std::string> read = ReadRegularFile(file, {.bytes_max = kFileBytesMax});
  if (!read) return Unusable(file, fmt::format("cannot be read: {}", read.error().detail));
  if (read->find_first_not_of(" \t\r\n") == std::string::npos) return Unusable(file, "is empty");
  std::string unknown;
  Split(
      *read, [](std::string_view) {},
      [&](std::string_view word) {
        if (word != "tokens" && word != "kept_from" && word != "part") unknown = word;
      });
  if (!unknown.empty()) {
    return Unusable(file, fmt::format("has {{{{{}}}}}, and only {{{{tokens}}}}, {{{{kept_from}}}} "
                                      "and {{{{part}}}} are known",
                                      unknown));
  }
  const auto digest = Sha256().Update(*read).Finish();
  std::string name = "file@" + ToHex(std::span(digest.bytes).first(4));
  return SummaryPrompt(std::move(name), *read);
}

std::string SummaryPrompt::Ask(const Words& words) const {
  std::string out;
  const std::string_view part =
      words.part.empty() ? kAbove : "the part that stands at the end of this message";
  Split(
      text_, [&](std::string_view text) { out += text; },
      [&](std::string_view word) {
        if (word == "tokens") out += std::to_string(words.tokens_max);
        if (word == "kept_from") out += words.kept_from;
        if (word == "part") out += part;
      });
  out += behind_;
  if (!words.part.empty()) out += "\n\n<part>\n" + words.part + "</part>";
  return out;
}

}  // namespace kvgate::session::summary
