// Preloaded into the program: after KOPT_DISK_BYTES bytes have been written to
// regular files (with KOPT_DISK_PART only those with that part in their path), the
// disk is full.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long left = -1;

static int is_elsewhere(int fd) {
  const char* part = getenv("KOPT_DISK_PART");
  if (!part) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  return strstr(path, part) == NULL;
}

static int full(int fd, size_t count) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || is_elsewhere(fd)) return 0;
  if (left < 0) left = atol(getenv("KOPT_DISK_BYTES"));
  if (left >= (long)count) {
    left -= (long)count;
    return 0;
  }
  left = 0;
  errno = ENOSPC;
  return 1;
}

ssize_t write(int fd, const void* data, size_t count) {
  static ssize_t (*real)(int, const void*, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  return full(fd, count) ? -1 : real(fd, data, count);
}

ssize_t pwrite64(int fd, const void* data, size_t count, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
  return full(fd, count) ? -1 : real(fd, data, count, offset);
}

ssize_t pwrite(int fd, const void* data, size_t count, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (!real) real = dlsym(RTLD_NEXT, "pwrite");
  return full(fd, count) ? -1 : real(fd, data, count, offset);
}
