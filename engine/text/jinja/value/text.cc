#include "engine/text/jinja/value/text.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/utf8.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::value {

int64_t String::length() const {
  if (num_characters < 0) num_characters = static_cast<int64_t>(CountUtf8Characters(view()));
  return num_characters;
}

size_t String::OffsetOf(int64_t index) const {
  if (is_ascii()) return static_cast<size_t>(index);
  if (index >= length()) return size;
  return OffsetOfCharacter(view(), static_cast<size_t>(index));
}

Origin String::origin() const {
  Origin first = Origin::kTemplate;
  if (size > 0) {
    const String byte{.buffer = buffer, .begin = begin, .size = 1};
    VisitRuns(byte, [&](std::string_view, Origin origin) { first = origin; });
  }
  return first;
}

const String* EmptyString() {
  static const TextBuffer buffer;
  static const String empty{.buffer = &buffer, .begin = 0, .size = 0, .num_characters = 0};
  return &empty;
}

String* BorrowString(Heap& heap, std::string_view text, Origin origin) {
  auto* buffer = heap.New<TextBuffer>();
  buffer->data = const_cast<char*>(text.data());  // capacity 0: never written to
  buffer->size = text.size();
  if (origin != Origin::kTemplate && !text.empty()) {
    buffer->runs = heap.New<OriginRun>(size_t{0}, text.size(), origin);
    buffer->num_runs = 1;
  }
  return heap.New<String>(buffer, size_t{0}, text.size());
}

const String* Part(Heap& heap, const String& text, size_t begin, size_t end) {
  if (begin >= end) return EmptyString();
  if (begin == 0 && end == text.size) return &text;
  const bool ascii = text.num_characters == static_cast<int64_t>(text.size);
  return heap.New<String>(text.buffer, text.begin + begin, end - begin,
                          ascii ? static_cast<int64_t>(end - begin) : int64_t{-1});
}

// memmem uses Two-Way for long needles; for short ones its cost is bounded by 256 bytes per
// position.
size_t FindText(std::string_view text, std::string_view part, size_t at) {
  if (at > text.size()) return std::string_view::npos;
  if (part.empty()) return at;
  if (text.empty()) return std::string_view::npos;  // whose data may be null
  const void* const found = memmem(text.data() + at, text.size() - at, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Knuth-Morris-Pratt from right to left.
BackwardSearch::BackwardSearch(std::string_view part) : part_(part), fallback_(part.size() + 1) {
  const auto from_end = [&](size_t i) { return part_[part_.size() - 1 - i]; };
  size_t matched = 0;
  for (size_t i = 1; i < part.size(); ++i) {
    while (matched > 0 && from_end(matched) != from_end(i)) matched = fallback_[matched];
    if (from_end(matched) == from_end(i)) ++matched;
    fallback_[i + 1] = matched;
  }
}

size_t BackwardSearch::Next(std::string_view text, size_t end) const {
  if (part_.empty()) return end;
  size_t matched = 0;
  for (size_t at = end; at-- > 0;) {
    while (matched > 0 && part_[part_.size() - 1 - matched] != text[at]) {
      matched = fallback_[matched];
    }
    if (part_[part_.size() - 1 - matched] == text[at]) ++matched;
    if (matched == part_.size()) return at;
  }
  return std::string_view::npos;
}

TextBuilder::TextBuilder(Heap& heap, const String& start) : heap_(heap) {
  const bool at_end = start.begin + start.size == start.buffer->size;
  if (at_end && start.buffer->capacity > 0) {
    buffer_ = const_cast<TextBuffer*>(start.buffer);  // same heap; foreign buffers have capacity 0
    begin_ = start.begin;
  } else {
    Append(start);
  }
}

bool TextBuilder::Grow(size_t bytes) {
  const size_t used = size();
  if (buffer_ != nullptr && buffer_->capacity - buffer_->size >= bytes) return true;
  const size_t capacity = std::max<size_t>(used + bytes, std::max<size_t>(2 * used, 32));
  if (!heap_.Reserve(capacity)) return false;
  const TextBuffer* old = buffer_;
  const size_t old_begin = begin_;
  buffer_ = heap_.New<TextBuffer>();
  buffer_->data = heap_.NewArray<char>(capacity);
  buffer_->capacity = capacity;
  begin_ = 0;
  if (old != nullptr && used > 0) {
    const String kept{.buffer = old, .begin = old_begin, .size = used};
    Append(kept);
  }
  return true;
}

void TextBuilder::AddRun(size_t begin, size_t end, Origin origin) {
  TextBuffer& buffer = *buffer_;
  if (buffer.num_runs > 0) {
    OriginRun& last = buffer.runs[buffer.num_runs - 1];
    // Strings that view a shorter part of this buffer also see a shorter part of the run.
    if (last.end == begin && last.origin == origin) {
      last.end = end;
      return;
    }
  }
  if (buffer.num_runs == buffer.runs_capacity) {
    const size_t capacity = std::max<size_t>(4, buffer.runs_capacity * 2);
    auto* runs = heap_.NewArray<OriginRun>(capacity);
    std::copy_n(buffer.runs, buffer.num_runs, runs);
    buffer.runs = runs;
    buffer.runs_capacity = capacity;
  }
  buffer.runs[buffer.num_runs++] = {begin, end, origin};
}

void TextBuilder::Append(std::string_view text, Origin origin) {
  if (text.empty() || !Grow(text.size())) return;
  const size_t begin = buffer_->size;
  std::memcpy(buffer_->data + begin, text.data(), text.size());
  buffer_->size += text.size();
  if (origin != Origin::kTemplate) AddRun(begin, buffer_->size, origin);
}

void TextBuilder::Append(const String& text) {
  // Grows once, so that the buffer does not move if it is itself the source.
  if (text.size == 0 || !Grow(text.size)) return;
  if (text.buffer->num_runs == 0) {
    Append(text.view());
    return;
  }
  VisitRuns(text, [&](std::string_view part, Origin origin) { Append(part, origin); });
}

void TextBuilder::AppendCharacter(char32_t code, Origin origin) {
  std::string bytes;
  AppendUtf8(code, bytes);
  Append(bytes, origin);
}

void TextBuilder::Repeat(std::string_view text, int64_t count, Origin origin) {
  if (text.empty() || count <= 0) return;
  if (static_cast<uint64_t>(count) > SIZE_MAX / text.size() ||
      !Grow(text.size() * static_cast<size_t>(count))) {
    heap_.Reserve(SIZE_MAX);
    return;
  }
  for (int64_t i = 0; i < count; ++i) Append(text, origin);
}

const String* TextBuilder::Build() {
  if (size() == 0) return EmptyString();
  return heap_.New<String>(buffer_, begin_, size());
}

}  // namespace kvgate::jinja::value
