/*
 * A wall clock that a test sets. Preloaded into a server, it answers the real-time clocks from a file that
 * the test maps as well; the monotonic clocks stay what they are.
 *
 * $RL_CLOCK_FILE holds two native 64-bit integers:
 *   mode   0: the wall clock stands still at `value` microseconds since the epoch
 *          1: the wall clock runs, shifted by `value` microseconds (signed)
 *   value
 *
 * Why /proc/cpuinfo is hidden: Valkey 9 on x86 takes the wall clock from gettimeofday only once in a
 * millisecond and in between adds what the CPU's cycle counter has advanced. Seen on 9.1.2: after the file
 * was set, TIME and PEXPIRETIME went on from the old time for up to 1 ms, and never stood still. The cycle
 * counter cannot be intercepted, but a server uses it only where /proc/cpuinfo tells its speed; without that
 * it falls back to clock_gettime and asks for every command (INFO: monotonic_clock:POSIX clock_gettime).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shared;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("RL_CLOCK_FILE");
    if (!path || shared) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) shared = map;
}

static int wall_clock(clockid_t id) {
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    int64_t us;
    int r;
    /* A server may ask for the time before the constructor has run. */
    if (!shared) open_clock();
    if (!shared || !wall_clock(id)) return syscall(SYS_clock_gettime, id, t);
    if (shared[0] == 0) {
        us = shared[1];
        t->tv_sec = us / 1000000;
        t->tv_nsec = us % 1000000 * 1000;
        return 0;
    }
    if ((r = syscall(SYS_clock_gettime, id, t)) != 0) return r;
    us = (int64_t)t->tv_sec * 1000000 + t->tv_nsec / 1000 + shared[1];
    t->tv_sec = us / 1000000;
    t->tv_nsec = us % 1000000 * 1000 + t->tv_nsec % 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
    struct timespec t;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0) return -1;
    v->tv_sec = t.tv_sec;
    v->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0) return -1;
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}

typedef FILE *(*open_file)(const char *, const char *);

static FILE *open_unless_cpuinfo(const char *name, const char *path, const char *mode) {
    open_file real = (open_file)dlsym(RTLD_NEXT, name);
    if (shared && strcmp(path, "/proc/cpuinfo") == 0) {
        errno = ENOENT;
        return NULL;
    }
    return real ? real(path, mode) : NULL;
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_unless_cpuinfo("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_unless_cpuinfo("fopen64", path, mode);
}
