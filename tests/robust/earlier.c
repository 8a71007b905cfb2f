// Preloaded into the program: it is an hour earlier.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  const int failed = real(clock, time);
  if (!failed && clock == CLOCK_REALTIME) time->tv_sec -= 3600;
  return failed;
}
