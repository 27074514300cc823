// String: text that records which of its bytes came from the input.
//
// A String is a view of a part of a TextBuffer. The buffer holds the bytes and, as ascending runs,
// their origins (bytes outside all runs are the template's own). So slicing copies nothing and
// keeps the origins, and text that grows at its end (a ~ b ~ c, ns.text = ns.text + x) is extended
// in place. Strings are immutable: bytes written to a buffer never change.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/text/jinja/value/data.h"
#include "engine/text/jinja/value/heap.h"

namespace kvgate::jinja::value {

struct OriginRun {
  size_t begin;
  size_t end;
  Origin origin;  // never kTemplate
};

struct TextBuffer {
  char* data = nullptr;
  size_t size = 0;
  size_t capacity = 0;  // 0: borrowed or shared between threads; must not be appended to
  OriginRun* runs = nullptr;
  size_t num_runs = 0;
  size_t runs_capacity = 0;
};

struct String {
  const TextBuffer* buffer;
  size_t begin;
  size_t size;
  mutable int64_t num_characters = -1;  // -1: not counted yet; literals are counted when parsed

  std::string_view view() const { return {buffer->data + begin, size}; }
  int64_t length() const;
  bool is_ascii() const { return static_cast<size_t>(length()) == size; }
  // Returns the byte offset of a character. REQUIRES: 0 <= index <= length().
  size_t OffsetOf(int64_t index) const;
  // Returns the origin of the first byte; kTemplate if empty.
  Origin origin() const;
};

const String* EmptyString();
// A view of bytes that must outlive the heap.
String* BorrowString(Heap& heap, std::string_view text, Origin origin);
// Returns bytes [begin, end) of a string as a view.
const String* Part(Heap& heap, const String& text, size_t begin, size_t end);

// Calls visit(std::string_view part, Origin) for each run of equal origin, in order.
template <typename Visitor>
void VisitRuns(const String& text, const Visitor& visit) {
  const TextBuffer& buffer = *text.buffer;
  const size_t end = text.begin + text.size;
  size_t at = text.begin;
  size_t low = 0;
  for (size_t high = buffer.num_runs; low < high;) {  // finds the first run that ends after `at`
    const size_t middle = (low + high) / 2;
    if (buffer.runs[middle].end <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (size_t i = low; i < buffer.num_runs && buffer.runs[i].begin < end; ++i) {
    const OriginRun& run = buffer.runs[i];
    if (run.begin > at) {
      visit(std::string_view(buffer.data + at, run.begin - at), Origin::kTemplate);
      at = run.begin;
    }
    const size_t run_end = run.end < end ? run.end : end;
    visit(std::string_view(buffer.data + at, run_end - at), run.origin);
    at = run_end;
  }
  if (at < end) visit(std::string_view(buffer.data + at, end - at), Origin::kTemplate);
}

// Returns the first position of `part` in `text` from `at` on, or npos. Always linear in both,
// unlike the searches of the standard library.
size_t FindText(std::string_view text, std::string_view part, size_t at = 0);

// The same from the end: Next returns the last match that ends at or before `end`.
class BackwardSearch {
 public:
  explicit BackwardSearch(std::string_view part);
  // Returns where the match begins, or npos.
  size_t Next(std::string_view text, size_t end) const;

 private:
  std::string_view part_;
  std::vector<size_t> fallback_;  // KMP failure function of the reversed part
};

// Builds one String. If the heap is exhausted, appended text is dropped; the evaluator checks
// Heap::exhausted().
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}
  // Continues after `start`, in the same buffer if nothing was appended to it since.
  TextBuilder(Heap& heap, const String& start);

  void Append(std::string_view text, Origin origin = Origin::kTemplate);
  void Append(const String& text);
  void AppendCharacter(char32_t code, Origin origin);
  void Repeat(std::string_view text, int64_t count, Origin origin = Origin::kTemplate);
  size_t size() const { return buffer_ == nullptr ? 0 : buffer_->size - begin_; }
  Heap& heap() { return heap_; }
  // Returns the text so far. Appending may continue; the returned string does not change.
  const String* Build();

 private:
  bool Grow(size_t bytes);
  void AddRun(size_t begin, size_t end, Origin origin);

  Heap& heap_;
  TextBuffer* buffer_ = nullptr;
  size_t begin_ = 0;
};

}  // namespace kvgate::jinja::value
