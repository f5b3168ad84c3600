/* The program that relaxc --emit exe puts around an entry: arguments are .npy files, one per
 * parameter, in order; results are printed, one element per line, each tensor after a line with its
 * shape. `params` holds name and type of each parameter. RELAX_THREADS is how many threads share loops; one unless
 * it is set. */
#include "model.h"
#include "params.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 2;
}

/* Reads NumPy's formats 1.0 to 3.0: a header line {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. */
static RxObject *read_npy(RxContext *ctx, const char *path, const char *type) {
  FILE *f = fopen(path, "rb");
  unsigned char head[12];
  if (!f) {
    fail(path, "cannot be opened");
    return NULL;
  }
  size_t length = 0, sizes = 2;
  if (fread(head, 1, 8, f) == 8 && !memcmp(head, "\x93NUMPY", 6) && head[6] >= 1 && head[6] <= 3) {
    sizes = head[6] == 1 ? 2 : 4;
    if (fread(head + 8, 1, sizes, f) == sizes)
      for (size_t i = 0; i < sizes; i++) length |= (size_t)head[8 + i] << 8 * i;
  }
  char *text = calloc(length + 1, 1);
  if (!length || !text || fread(text, 1, length, f) != length) {
    fail(path, "is no .npy file");
    fclose(f);
    free(text);
    return NULL;
  }
  const char *descr = strstr(text, "'descr': '"), *shape = strstr(text, "'shape': (");
  DLDataType dtype = {kDLFloat, 32, 1};
  int64_t dims[16], count = 1;
  int32_t rank = 0;
  char kind = descr ? descr[11] : 0;
  int bytes = descr ? atoi(descr + 12) : 0;
  if (!shape || strstr(text, "'fortran_order': True") || descr[10] == '>' || !strchr("fiubV", kind) ||
      bytes < 1 || bytes > 8) {
    fail(path, "is no array of numbers in C order and little-endian");
    fclose(f);
    free(text);
    return NULL;
  }
  dtype.bits = (uint8_t)(8 * bytes);
  dtype.code = kind == 'f' ? kDLFloat : kind == 'i' ? kDLInt : kind == 'b' ? kDLBool : kDLUInt;
  /* NumPy has no bfloat16: its bits. */
  if (bytes == 2 && (kind == 'u' || kind == 'V') && strstr(type, "bfloat16")) dtype.code = kDLBfloat;
  char *at = (char *)shape + 10, *end;
  for (;;) {
    while (*at == ' ' || *at == ',') at++;
    int64_t d = strtoll(at, &end, 10);
    if (end == at || rank == 16) break;
    dims[rank++] = d;
    count *= d;
    at = end;
  }
  free(text);
  size_t size = (size_t)count * (dtype.bits / 8);
  void *data = malloc(size ? size : 1);
  RxObject *tensor = NULL;
  if (!data || fread(data, 1, size, f) != size) fail(path, "ends before its array does");
  else if (!(tensor = rx_tensor_copy(ctx, dtype, rank, dims, data))) fail(path, rx_last_error(ctx));
  free(data);
  fclose(f);
  return tensor;
}

/* The float of IEEE's 16 bits. */
static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
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
    } else if (t.bits == 16 && (t.code == kDLFloat || t.code == kDLBfloat)) {
      uint16_t bits;
      memcpy(&bits, p, 2);
      uint32_t wide = (uint32_t)bits << 16;
      float x;
      memcpy(&x, &wide, 4);
      printf("%.9g\n", t.code == kDLFloat ? half(bits) : x);
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
    fprintf(stderr, "usage: %s", argv[0]);
    for (int i = 0; i < NARGS; i++) fprintf(stderr, " %s.npy", params[i][0]);
    fprintf(stderr, "\n");
    for (int i = 0; i < NARGS; i++) fprintf(stderr, "  %s.npy: %s\n", params[i][0], params[i][1]);
    return 2;
  }
  RxContext *ctx = rx_context_create();
  RxObject *args[NARGS + 1] = {NULL}, *out = NULL;
  if (!ctx) return fail(argv[0], "out of memory");
  const char *threads = getenv("RELAX_THREADS");
  if (threads && rx_set_threads(ctx, atoi(threads)) != RX_OK) return fail("RELAX_THREADS", rx_last_error(ctx));
  for (int i = 0; i < NARGS; i++) {
    args[i] = read_npy(ctx, argv[i + 1], params[i][1]);
    if (!args[i]) return 2;
  }
  int32_t status = ENTRY(ctx, args, NARGS, &out);
  if (status == RX_OK) print_value(out);
  else fail(argv[0], rx_last_error(ctx));
  int written = !fflush(stdout);
  for (int i = 0; i < NARGS; i++) rx_release(ctx, args[i]);
  rx_release(ctx, out);
  rx_context_destroy(ctx);
  if (!written) return fail(argv[0], "cannot write to standard output");
  return status == RX_OK ? 0 : 1;
}
