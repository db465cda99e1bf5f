/*
 * A wall clock that stands still until it is told to move.
 *
 * Loaded ahead of the C library, this answers clock_gettime(CLOCK_REALTIME),
 * gettimeofday and time from the int64 of nanoseconds since the epoch that the
 * file named by STANDING_CLOCK begins with. The other clocks run on, so that
 * the process still wakes up by itself. Without STANDING_CLOCK nothing changes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NANOS_PER_SECOND 1000000000

#ifdef __APPLE__
/* The dynamic loader swaps the functions listed here; calls from this file
 * still reach the originals. */
#define REPLACEMENT(name) standing_##name
#define REPLACE(name) \
    __attribute__((used, section("__DATA,__interpose"))) \
    static const struct { const void *to, *from; } swap_##name = { \
        (const void *)standing_##name, (const void *)name }
static int real_clock_gettime(clockid_t id, struct timespec *ts) {
    return clock_gettime(id, ts);
}
#else
#include <sys/syscall.h>
#define REPLACEMENT(name) name
#define REPLACE(name) struct swap_##name
static int real_clock_gettime(clockid_t id, struct timespec *ts) {
    return syscall(SYS_clock_gettime, id, ts);
}
#endif

static const int64_t *standing_nanos;

__attribute__((constructor)) static void find_clock(void) {
    const char *path = getenv("STANDING_CLOCK");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) standing_nanos = page;
    close(fd);
}

static int is_wall_clock(clockid_t id) {
#ifdef CLOCK_REALTIME_COARSE
    if (id == CLOCK_REALTIME_COARSE) return 1;
#endif
    return id == CLOCK_REALTIME;
}

static int read_clock(clockid_t id, struct timespec *ts) {
    if (!standing_nanos || !is_wall_clock(id)) return real_clock_gettime(id, ts);
    int64_t now = __atomic_load_n(standing_nanos, __ATOMIC_SEQ_CST);
    ts->tv_sec = now / NANOS_PER_SECOND;
    ts->tv_nsec = now % NANOS_PER_SECOND;
    return 0;
}

int REPLACEMENT(clock_gettime)(clockid_t id, struct timespec *ts) {
    return read_clock(id, ts);
}
REPLACE(clock_gettime);

int REPLACEMENT(gettimeofday)(struct timeval *tv, void *zone) {
    (void)zone;
    struct timespec ts;
    if (read_clock(CLOCK_REALTIME, &ts) != 0) return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}
REPLACE(gettimeofday);

time_t REPLACEMENT(time)(time_t *t) {
    struct timespec ts;
    if (read_clock(CLOCK_REALTIME, &ts) != 0) return -1;
    if (t) *t = ts.tv_sec;
    return ts.tv_sec;
}
REPLACE(time);
