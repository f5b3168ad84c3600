/* A compiled model as a program of its own: reads its one input, runs it, and says what the process held.
 *
 *   alone INPUT RUNS     INPUT: raw float32 in the shape that SHAPE names
 *
 * Prints: the most that the process held in KiB, the most that the context's heap held in bytes, the allocations of
 * the later runs, and the median seconds of a run; then what it holds at the end in KiB: the mapped weights, memory of
 * no file (the heap, stacks), the program's file, libraries. */
#include "relax_runtime.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int32_t relax_main(RxContext *ctx, RxObject *const *args, int32_t nargs, RxObject **out);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long held(void) {
  char line[256];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld", &kib);
  if (f) fclose(f);
  return kib;
}

/* What the process holds of each sort of mapping. */
static void parts(const char *program, long kib[4]) {
  char line[1024], own[512] = "";
  int sort = 1;
  long rss;
  if (!realpath(program, own)) own[0] = 0;
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f && fgets(line, sizeof line, f)) {
    char from[20], to[20], path[512] = "";
    if (sscanf(line, "%19[0-9a-f]-%19[0-9a-f] %*s %*s %*s %*s %511s", from, to, path) >= 2)
      sort = path[0] != '/' ? 1 : strstr(path, ".weights") ? 0 : strcmp(path, own) == 0 ? 2 : 3;
    else if (sscanf(line, "Rss: %ld", &rss) == 1)
      kib[sort] += rss;
  }
  if (f) fclose(f);
}

static int order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  int64_t shape[] = {SHAPE}, count = 1;
  int32_t rank = (int32_t)(sizeof shape / sizeof *shape);
  for (int32_t i = 0; i < rank; i++) count *= shape[i];
  int runs = argc == 3 ? atoi(argv[2]) : 0;
  FILE *f = runs > 0 ? fopen(argv[1], "rb") : NULL;
  RxContext *ctx = rx_context_create();
  double *times = calloc((size_t)runs + 1, sizeof *times);
  if (!f || !ctx || !times) return 2;
  /* The tensor's own memory takes the input: nobody holds it twice. */
  RxObject *x = rx_alloc_tensor(ctx, (DLDataType){kDLFloat, 32, 1}, rank, shape);
  if (!x || fread(rx_tensor_data(x), 4, (size_t)count, f) != (size_t)count) return 2;
  fclose(f);
  RxHeapStats stats;
  uint64_t before = 0;
  /* The first two runs are how the heap comes to know the sizes. */
  for (int i = 0; i < runs + 2; i++) {
    if (i == 2) {
      rx_heap_stats(ctx, &stats);
      before = stats.system_allocs;
    }
    RxObject *out = NULL;
    double begin = now();
    if (relax_main(ctx, &x, 1, &out) != RX_OK) {
      fprintf(stderr, "%s\n", rx_last_error(ctx));
      return 1;
    }
    if (i >= 2) times[i - 2] = now() - begin;
    rx_release(ctx, out);
  }
  rx_heap_stats(ctx, &stats);
  qsort(times, (size_t)runs, sizeof *times, order);
  printf("%ld %llu %llu %.9f\n", held(), (unsigned long long)stats.peak_bytes,
         (unsigned long long)(stats.system_allocs - before), times[runs / 2]);
  long kib[4] = {0, 0, 0, 0};
  parts(argv[0], kib);
  printf("%ld %ld %ld %ld\n", kib[0], kib[1], kib[2], kib[3]);
  return 0;
}
