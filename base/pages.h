// Hints to the kernel about the pages of a file mapping. They affect speed and memory use, never
// the bytes that are read, so errors are ignored. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

namespace kvgate {

// Starts reading the bytes into the page cache. On a cold disk the call may take about as long as
// reading the part that exceeds the disk's queue.
void AskForPages(std::span<const std::byte> mapped);

// Removes the pages from this process. They come back from the page cache or the disk when they are
// read again. REQUIRES: a read-only mapping of a file; other memory would lose its contents.
void DropPages(std::span<const std::byte> mapped);

}  // namespace kvgate
