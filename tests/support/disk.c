/*
 * A disk that a test fills or slows down. Preloaded into a server, it stands between it and its append-only
 * files (names that end in .aof); everything else is left alone.
 *
 * $RL_DISK_FILE holds two native 64-bit integers:
 *   room   how many bytes still fit; negative: as many as you like. As on a real disk, what does not fit is
 *          cut to what does, and the next write gets ENOSPC
 *   sync   how many microseconds fdatasync takes. Nothing is really synced: what a killed server has written
 *          stays in the system's memory, and no test may depend on how fast the machine's own disk is
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int64_t *shared;

__attribute__((constructor)) static void open_disk(void) {
    const char *path = getenv("RL_DISK_FILE");
    if (!path || shared) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, 2 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) shared = map;
}

static int append_only(int fd) {
    char link[32], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name);
    return n > 4 && memcmp(name + n - 4, ".aof", 4) == 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    int64_t room = shared ? shared[0] : -1;
    if (room < 0 || !append_only(fd)) return syscall(SYS_write, fd, bytes, count);
    if (room == 0 && count > 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t n = syscall(SYS_write, fd, bytes, count < (size_t)room ? count : (size_t)room);
    /* Not if the test has made room in the meantime. */
    if (n > 0) __sync_bool_compare_and_swap(&shared[0], room, room - n);
    return n;
}

int fdatasync(int fd) {
    if (!shared || !append_only(fd)) return syscall(SYS_fdatasync, fd);
    if (shared[1] > 0) usleep(shared[1]);
    return 0;
}
