/* The program that relaxc --emit exe puts around an entry: arguments are .npy files, one per
 * parameter, in order; results are printed, one element per line, each tensor after a line with its
 * shape. */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 2;
}

/* Reads NumPy's format 1.0: a header line {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. */
static RxObject *read_npy(RxContext *ctx, const char *path) {
  FILE *f = fopen(path, "rb");
  unsigned char head[10];
  if (!f || fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\x01", 7)) {
    fail(path, "is no .npy file of format 1.0");
    if (f) fclose(f);
    return NULL;
  }
  size_t length = head[8] | (size_t)head[9] << 8;
  char *text = calloc(length + 1, 1);
  if (!text || fread(text, 1, length, f) != length) {
    fclose(f);
    free(text);
    return NULL;
  }
  const char *descr = strstr(text, "'descr': '"), *shape = strstr(text, "'shape': (");
  DLDataType dtype = {kDLFloat, 32, 1};
  int64_t dims[16], count = 1;
  int32_t rank = 0;
  if (descr && shape && !strstr(text, "'fortran_order': True")) {
    char kind = descr[11];
    int bytes = atoi(descr + 12);
    dtype.bits = (uint8_t)(8 * bytes);
    dtype.code = kind == 'f' ? kDLFloat : kind == 'i' ? kDLInt : kind == 'b' ? kDLBool : kDLUInt;
    char *at = (char *)shape + 10, *end;
    for (;;) {
      while (*at == ' ' || *at == ',') at++;
      int64_t d = strtoll(at, &end, 10);
      if (end == at || rank == 16) break;
      dims[rank++] = d;
      count *= d;
      at = end;
    }
  }
  free(text);
  size_t size = (size_t)count * (dtype.bits / 8);
  void *data = malloc(size ? size : 1);
  RxObject *tensor = NULL;
  if (data && fread(data, 1, size, f) == size) tensor = rx_tensor_copy(ctx, dtype, rank, dims, data);
  free(data);
  fclose(f);
  return tensor;
}

static void print_value(const RxObject *v) {
  if (rx_kind(v) != RX_TENSOR) {
    uint32_t n = rx_field_count(v);
    if (rx_kind(v) == RX_ADT) printf("constructor %u\n", rx_tag(v));
    for (uint32_t i = 0; i < n; i++) print_value(rx_field(v, i));
    return;
  }
  DLDataType t = rx_tensor_dtype(v);
  int32_t rank = rx_tensor_ndim(v);
  printf("(");
  for (int32_t i = 0; i < rank; i++) printf(i ? ", %lld" : "%lld", (long long)rx_tensor_shape(v)[i]);
  printf(rank == 1 ? ",)\n" : ")\n");
  const char *p = rx_tensor_data(v);
  for (int64_t i = 0, n = rx_tensor_elements(v); i < n; i++, p += t.bits / 8) {
    if (t.code == kDLFloat && t.bits == 32) {
      float x;
      memcpy(&x, p, 4);
      printf("%.9g\n", x);
    } else if (t.code == kDLFloat && t.bits == 64) {
      double x;
      memcpy(&x, p, 8);
      printf("%.17g\n", x);
    } else {
      long long x = 0;
      memcpy(&x, p, t.bits / 8);
      int spare = 64 - t.bits;
      if (t.code == kDLInt) x = (long long)((unsigned long long)x << spare) >> spare;
      printf("%lld\n", x);
    }
  }
}

int main(int argc, char **argv) {
  if (argc - 1 != NARGS) {
    fprintf(stderr, "usage: %s %d .npy files, one per parameter\n", argv[0], NARGS);
    return 2;
  }
  RxContext *ctx = rx_context_create();
  RxObject *args[NARGS + 1] = {NULL}, *out = NULL;
  if (!ctx) return fail(argv[0], "out of memory");
  for (int i = 0; i < NARGS; i++) {
    args[i] = read_npy(ctx, argv[i + 1]);
    if (!args[i]) return fail(argv[i + 1], "cannot be read");
  }
  int32_t status = ENTRY(ctx, args, NARGS, &out);
  if (status == RX_OK) print_value(out);
  else fail(argv[0], rx_last_error(ctx));
  for (int i = 0; i < NARGS; i++) rx_release(ctx, args[i]);
  rx_release(ctx, out);
  rx_context_destroy(ctx);
  return status == RX_OK ? 0 : 1;
}
