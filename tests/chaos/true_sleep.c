/* Loaded before libfaketime, whose own version (0.9.10) fails with EINVAL for absolute times of the monotonic clock,
   which is how Python sleeps. Clocks are what is to be false here, not waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, wanted, left) == 0 ? 0 : errno;
}
