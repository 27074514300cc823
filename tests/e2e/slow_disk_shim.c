/* Makes the KV files of a data directory as slow as KVGATE_READ_BYTES_PER_SECOND says: preloaded,
 * it delays reads of files whose path holds "/kv/". All readers share the one disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*Pread)(int, void*, size_t, off_t);

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static int is_kv_file(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return strstr(path, "/kv/") != NULL;
}

static void take_time(int fd, ssize_t bytes) {
  const char* rate = getenv("KVGATE_READ_BYTES_PER_SECOND");
  if (rate == NULL || bytes <= 4096 || !is_kv_file(fd)) return;
  const double seconds = (double)bytes / atof(rate);
  struct timespec pause;
  pause.tv_sec = (time_t)seconds;
  pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
  pthread_mutex_lock(&disk);
  nanosleep(&pause, NULL);
  pthread_mutex_unlock(&disk);
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  const ssize_t bytes = ((Pread)dlsym(RTLD_NEXT, "pread"))(fd, buffer, size, offset);
  take_time(fd, bytes);
  return bytes;
}

ssize_t pread64(int fd, void* buffer, size_t size, off_t offset) {
  const ssize_t bytes = ((Pread)dlsym(RTLD_NEXT, "pread64"))(fd, buffer, size, offset);
  take_time(fd, bytes);
  return bytes;
}
