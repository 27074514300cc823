// Hints to the kernel about the pages of a file mapping. They change speed and memory use, never
// what is read, so a refusal is none of our business. Any thread may give them.
#pragma once

#include <cstddef>
#include <span>

namespace kvgate {

// Reads the bytes into the page cache, and returns when that is under way: on a cold disk the call
// takes about as long as reading what does not fit the disk's queue.
void AskForPages(std::span<const std::byte> mapped);

// Takes the pages out of this process. They come back, from the page cache or the disk, when they
// are read again. REQUIRES: a read-only mapping of a file; other memory would lose its contents.
void DropPages(std::span<const std::byte> mapped);

}  // namespace kvgate
