// ReplyParser: takes the text that a model writes apart, as it comes, into reasoning, text and
// calls of tools. How a model writes calls is its family's matter (families.h), which its chat
// template tells.
//
// Bytes in, pieces out. The pieces do not depend on how the bytes were cut: a parser looks at one
// byte at a time. No text is lost: what begins like a call and turns out not to be one is text, all
// of it; what goes wrong inside a call that has been told ends the call, and the rest is text. Only
// blanks at the seams go. A call's arguments are JSON text as the model wrote it (control
// characters in strings escaped, which JSON wants and models forget), and "{}" where it wrote none.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::reply {

// A call comes as kCall, with its name and, where the model gave one, its id; its arguments, in
// pieces; kCallEnd. Calls do not overlap.
enum class PieceKind : uint8_t { kText, kReasoning, kCall, kArguments, kCallEnd };

struct Piece {
  PieceKind kind = PieceKind::kText;
  std::string text = {};  // of kCall its name
  std::string id = {};    // of kCall
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Of a tool, what it takes to read arguments that are not JSON: which of them are texts.
struct ToolShape {
  std::string name;
  std::vector<std::string> text_arguments;
  std::vector<std::string> nullable_arguments = {};  // of those, where null is one, too
};

struct ReplyParserOptions;

class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  // Appends the pieces that are certain now; neighbours of one kind are one.
  void Push(std::string_view text, std::vector<Piece>& out);
  // The text is at its end.
  void Finish(std::vector<Piece>& out);

 protected:
  virtual void Step(char byte) = 0;  // pieces go to Emit, EmitCall, EmitCallEnd
  virtual void End() = 0;

  void Emit(PieceKind kind, std::string_view text);
  void EmitCall(std::string_view name, std::string_view id);
  void EmitCallEnd() { pieces_.push_back({.kind = PieceKind::kCallEnd}); }

 private:
  friend std::unique_ptr<ReplyParser> MakeReplyParser(const ReplyParserOptions& options);

  std::vector<Piece> pieces_;  // since Push or Finish began
};

struct ReplyParserOptions {
  std::string_view family = {};       // a name from families.h
  bool calls = false;                 // tools are offered: calls are looked for
  std::vector<ToolShape> tools = {};  // those
  std::string_view prompt_tail = {};  // the end of the prompt, which may have opened the reasoning
};
// Whether the prompt leaves the model in its reasoning.
bool OpensReasoning(std::string_view family, std::string_view prompt_tail);

std::unique_ptr<ReplyParser> MakeReplyParser(const ReplyParserOptions& options);

}  // namespace kvgate::reply
