/* Notes what was synced, so that a test can take away what was not, as a loss of power does.
 * Preloaded, it writes to the file $KVGATE_SYNC_LOG: "S <bytes> <path>" after fsync and fdatasync,
 * with the size from before the call, and "R <from>\t<to>" after rename. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int (*Sync)(int);
typedef int (*Rename)(const char*, const char*);

/* By system calls alone: whoever syncs may hold locks of the C library. */
static void note(const char* line, int bytes) {
  static int log = -1;
  const char* path = getenv("KVGATE_SYNC_LOG");
  if (path == NULL || bytes <= 0) return;
  if (log < 0) {
    log = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (log >= 0) syscall(SYS_write, log, line, (size_t)bytes);
}

static int sync_noted(const char* name, int fd) {
  char link[64], path[4096], line[4400];
  struct stat info;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  const int known = length > 0 && fstat(fd, &info) == 0;
  const int result = ((Sync)dlsym(RTLD_NEXT, name))(fd);
  if (result != 0 || !known) return result;
  path[length] = '\0';
  note(line, snprintf(line, sizeof(line), "S %lld %s\n", (long long)info.st_size, path));
  return result;
}

int fsync(int fd) { return sync_noted("fsync", fd); }
int fdatasync(int fd) { return sync_noted("fdatasync", fd); }

int rename(const char* from, const char* to) {
  char line[8400];
  const int result = ((Rename)dlsym(RTLD_NEXT, "rename"))(from, to);
  if (result == 0) note(line, snprintf(line, sizeof(line), "R %s\t%s\n", from, to));
  return result;
}
