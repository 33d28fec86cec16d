/* A disk for tests, by LD_PRELOAD: it writes down what is written under MERCER_DISK_ROOT, and lets
   every MERCER_DISK_FAIL-th write fail as if the disk were full. The journal has one record for each
   operation: a letter, the length of the name, two numbers, the name, and the data of a write. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -2;
static long every = 0, count = 0;

static int tracked(int fd, char *path) {
    const char *root = getenv("MERCER_DISK_ROOT");
    char link[64];
    if (!root) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    if (n <= 0) return 0;
    path[n] = 0;
    size_t m = strlen(path);
    if (strncmp(path, root, strlen(root)) != 0) return 0;
    return !(m > 4 && strcmp(path + m - 4, "-shm") == 0);
}

static void note(char kind, const char *path, int64_t a, int64_t b, const void *data, size_t size) {
    pthread_mutex_lock(&lock);
    if (journal == -2) {
        const char *name = getenv("MERCER_DISK_JOURNAL");
        journal = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    }
    if (journal >= 0) {
        int64_t head[3] = {(int64_t)strlen(path), a, b};
        size_t n = 1 + sizeof head + strlen(path) + size;
        char *record = malloc(n);
        record[0] = kind;
        memcpy(record + 1, head, sizeof head);
        memcpy(record + 1 + sizeof head, path, strlen(path));
        if (size) memcpy(record + 1 + sizeof head + strlen(path), data, size);
        if (syscall(SYS_write, journal, record, n) < 0) abort();
        free(record);
    }
    pthread_mutex_unlock(&lock);
}

static int fails(void) {
    const char *given = getenv("MERCER_DISK_FAIL");
    if (!given) return 0;
    pthread_mutex_lock(&lock);
    every = atol(given);
    int bad = every > 0 && ++count % every == 0;
    pthread_mutex_unlock(&lock);
    return bad;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    char path[4096];
    int ours = tracked(fd, path);
    if (ours && fails()) { errno = ENOSPC; return -1; }
    ssize_t done = syscall(SYS_pwrite64, fd, data, size, at);
    if (ours && done > 0) note('W', path, at, done, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    char path[4096];
    int ours = tracked(fd, path);
    if (ours && fails()) { errno = ENOSPC; return -1; }
    off_t at = ours ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t done = syscall(SYS_write, fd, data, size);
    if (ours && done > 0) note('W', path, at, done, data, done);
    return done;
}

int ftruncate64(int fd, off64_t size) {
    char path[4096];
    int done = (int)syscall(SYS_ftruncate, fd, size);
    if (!done && tracked(fd, path)) note('T', path, size, 0, 0, 0);
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fsync(int fd) {
    char path[4096];
    int done = (int)syscall(SYS_fsync, fd);
    if (!done && tracked(fd, path)) note('S', path, 0, 0, 0, 0);
    return done;
}
int fdatasync(int fd) {
    char path[4096];
    int done = (int)syscall(SYS_fdatasync, fd);
    if (!done && tracked(fd, path)) note('S', path, 0, 0, 0, 0);
    return done;
}

static int under(const char *path) {
    const char *root = getenv("MERCER_DISK_ROOT");
    return root && strncmp(path, root, strlen(root)) == 0;
}
int unlink(const char *path) {
    int done = (int)syscall(SYS_unlink, path);
    if (!done && under(path)) note('U', path, 0, 0, 0, 0);
    return done;
}
int rename(const char *from, const char *to) {
    int done = (int)syscall(SYS_rename, from, to);
    if (!done && under(from)) note('R', from, (int64_t)strlen(to), 0, to, strlen(to));
    return done;
}
