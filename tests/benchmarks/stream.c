/* STREAM's four kernels in C, one thread, to compare the probe's with: the same arrays, the same counting.

   stream BYTES REPEATS: arrays of so many bytes each. Prints a line a repeat, seconds of copy, scale, add and triad.

   As in the probe, the three arrays lie side by side on large pages, the third is the one that is written, and a store
   counts as one transfer, whatever the processor fetches for it. */

#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE ((size_t)1 << 21)
#define FACTOR 3.0

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *arrays(size_t n_values) {
    size_t n_bytes = (3 * n_values * sizeof(double) + PAGE - 1) / PAGE * PAGE;
    double *memory = aligned_alloc(PAGE, n_bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for three arrays of %zu values\n", n_values);
        exit(1);
    }
#ifdef MADV_HUGEPAGE
    madvise(memory, n_bytes, MADV_HUGEPAGE);
#endif
    for (size_t i = 0; i < n_values; i++) {
        memory[i] = 1.0;
        memory[n_values + i] = 2.0;
        memory[2 * n_values + i] = 0.0;
    }
    return memory;
}

/* Not inlined, so that no store is dropped because a later loop writes the same place. */
__attribute__((noinline)) static void once(const double *restrict x, const double *restrict y, double *restrict z, size_t n) {
    double start = now();
    for (size_t i = 0; i < n; i++) z[i] = x[i];
    double copied = now();
    for (size_t i = 0; i < n; i++) z[i] = FACTOR * x[i];
    double scaled = now();
    for (size_t i = 0; i < n; i++) z[i] = x[i] + y[i];
    double added = now();
    for (size_t i = 0; i < n; i++) z[i] = x[i] + FACTOR * y[i];
    double done = now();
    printf("%.9f %.9f %.9f %.9f\n", copied - start, scaled - copied, added - scaled, done - added);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: stream BYTES REPEATS\n");
        return 2;
    }
    size_t n = strtoull(argv[1], NULL, 10) / sizeof(double);
    double *memory = arrays(n);
    for (long repeats = strtol(argv[2], NULL, 10); repeats > 0; repeats--) once(memory, memory + n, memory + 2 * n, n);
    double last = memory[3 * n - 1];
    free(memory);
    return last == 7.0 ? 0 : 1;
}
