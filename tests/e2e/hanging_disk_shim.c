/* Preloaded, it makes a data directory's disk hang: while the file that KVGATE_HANG_FLAG names is
 * there, reads (an R in it) or writes and syncs (a W) of files under KVGATE_HANG_DIR wait. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int hangs(char kind) {
  const char* name = getenv("KVGATE_HANG_FLAG");
  if (name == NULL || access(name, F_OK) != 0) return 0;
  char text[8] = "";
  FILE* file = fopen(name, "r");
  if (file == NULL) return 0;
  if (fgets(text, sizeof(text), file) == NULL) text[0] = '\0';
  fclose(file);
  return strchr(text, kind) != NULL;
}

static int is_of_directory(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  const char* directory = getenv("KVGATE_HANG_DIR");
  return directory != NULL && strncmp(path, directory, strlen(directory)) == 0;
}

static void wait_for(int fd, char kind) {
  if (fd <= 2 || !is_of_directory(fd)) return;
  while (hangs(kind)) usleep(20000);
}

#define REAL(name, type)                                   \
  static type real = NULL;                                 \
  if (real == NULL) real = (type)dlsym(RTLD_NEXT, name)

typedef ssize_t (*Write)(int, const void*, size_t);
typedef ssize_t (*Pwrite)(int, const void*, size_t, off_t);
typedef ssize_t (*Pread)(int, void*, size_t, off_t);
typedef int (*Sync)(int);

ssize_t write(int fd, const void* buffer, size_t size) {
  REAL("write", Write);
  wait_for(fd, 'W');
  return real(fd, buffer, size);
}

ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  REAL("pwrite", Pwrite);
  wait_for(fd, 'W');
  return real(fd, buffer, size, offset);
}

ssize_t pwrite64(int fd, const void* buffer, size_t size, off_t offset) {
  REAL("pwrite64", Pwrite);
  wait_for(fd, 'W');
  return real(fd, buffer, size, offset);
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  REAL("pread", Pread);
  wait_for(fd, 'R');
  return real(fd, buffer, size, offset);
}

ssize_t pread64(int fd, void* buffer, size_t size, off_t offset) {
  REAL("pread64", Pread);
  wait_for(fd, 'R');
  return real(fd, buffer, size, offset);
}

int fdatasync(int fd) {
  REAL("fdatasync", Sync);
  wait_for(fd, 'W');
  return real(fd);
}

int fsync(int fd) {
  REAL("fsync", Sync);
  wait_for(fd, 'W');
  return real(fd);
}
