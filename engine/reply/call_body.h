// CallBody: what stands behind the mark that opens a call (families.h, CallSyntax), a byte at a
// time. A body tells its calls to a sink as soon as it is sure of them: what came before that can
// still be text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/reply/families.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::reply {

// Where a body tells its calls.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void BeginCall(std::string_view name, std::string_view id) = 0;
  virtual void AddArguments(std::string_view text) = 0;
  virtual void EndCall() = 0;
};

enum class BodyStatus : uint8_t {
  kMore,
  kDone,        // with this byte
  kDoneBefore,  // the byte is no part of it
  kFailed,      // likewise; End is to be called all the same
};

class CallBody {
 public:
  explicit CallBody(CallSink& sink) : sink_(sink) {}
  virtual ~CallBody() = default;
  CallBody(const CallBody&) = delete;
  CallBody& operator=(const CallBody&) = delete;

  virtual BodyStatus Step(char byte) = 0;
  // Nothing follows. A call that is open ends; arguments that came as JSON stay as far as they
  // came.
  virtual void End() { EndOpen(); }

 protected:
  void Begin(std::string_view name, std::string_view id = {});
  void Add(std::string_view arguments);
  // Ends the open call, if any; "{}" where it has had no arguments.
  void EndOpen();
  bool is_open() const { return open_; }

  CallSink& sink_;

 private:
  bool open_ = false;
  bool has_arguments_ = false;
};

// `tools` and `sink` outlive it.
std::unique_ptr<CallBody> MakeCallBody(const CallForm& form, CallSink& sink,
                                       std::span<const ToolShape> tools);

// --- the bodies that others are made of -------------------------------------------------------

// {"name","arguments","id"}, under any of the names that models have for them.
struct ObjectBodyOptions {
  bool known_tools_only = false;
};
std::unique_ptr<CallBody> MakeObjectBody(CallSink& sink, std::span<const ToolShape> tools,
                                         ObjectBodyOptions options);
// […] of those.
std::unique_ptr<CallBody> MakeListBody(CallSink& sink, std::span<const ToolShape> tools);

bool IsNameByte(char byte);
// A value that a model wrote without quotes, as JSON: a text where the tool wants one, else what it
// reads as.
struct PlainValue {
  std::string_view tool;
  std::string_view key;
  std::string_view value;
};
std::string ToJsonValue(const PlainValue& value, std::span<const ToolShape> tools);

}  // namespace kvgate::reply
