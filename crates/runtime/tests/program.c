/* Uses every part of the C interface; exits with the number of the line that failed. */
#include "relax_kernels.h"
#include "relax_runtime.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, rx_last_error(ctx));         \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

_Static_assert(sizeof(RxObject) == 16 && offsetof(RxObject, kind) == 4, "RxObject");
_Static_assert(offsetof(RxObject, cls) == 6 && offsetof(RxObject, tag) == 8, "RxObject");
_Static_assert(offsetof(RxObject, count) == 12, "RxObject");
_Static_assert(sizeof(RxTensor) == 64 && offsetof(RxTensor, dtype) == 16, "RxTensor");
_Static_assert(offsetof(RxTensor, ndim) == 20 && offsetof(RxTensor, data) == 24, "RxTensor");
_Static_assert(offsetof(RxTensor, shape) == 32 && offsetof(RxTensor, nbytes) == 40, "RxTensor");
_Static_assert(offsetof(RxTensor, owner) == 48 && offsetof(RxTensor, scalar) == 56, "RxTensor");
_Static_assert(offsetof(RxFields, fields) == 16 && offsetof(RxRef, value) == 16, "fields");
_Static_assert(offsetof(RxClosure, entry) == 24, "RxClosure");
_Static_assert(offsetof(RxClosure, captures) == 32, "RxClosure");
_Static_assert(offsetof(RxContextPrefix, threads) == 12, "RxContextPrefix");
_Static_assert(sizeof(DLManagedTensor) == 64, "DLManagedTensor");
_Static_assert(sizeof(RxEpilogue) == 64 && sizeof(RxGemm) == 96, "kernels");
_Static_assert(sizeof(RxGemmF32) == 176 && offsetof(RxGemmF32, epilogue) == 112, "RxGemmF32");
_Static_assert(sizeof(RxConv2dF32) == 232, "RxConv2dF32");
_Static_assert(offsetof(RxConv2dF32, epilogue) == 168, "RxConv2dF32");
_Static_assert(sizeof(RxPool2dF32) == 136 && offsetof(RxPool2dF32, x) == 120, "RxPool2dF32");
_Static_assert(RX_MATH_COUNT == 29, "RxMath");

static long live_blocks = 0;
static long allowed = -1; /* allocations that still succeed; -1: all */

static void *count_alloc(void *user, size_t size, size_t align) {
  (void)user;
  if (allowed == 0)
    return NULL;
  if (allowed > 0)
    allowed--;
  live_blocks++;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void count_free(void *user, void *pointer, size_t size, size_t align) {
  (void)user, (void)size, (void)align;
  live_blocks--;
  free(pointer);
}

static const DLDataType F32 = {kDLFloat, 32, 1};
static const DLDataType I64 = {kDLInt, 64, 1};

static int32_t twice(RxContext *ctx, void *userdata, RxObject *const *args, int32_t nargs,
                     RxObject **ret) {
  *(int *)userdata += 1;
  if (nargs != 1)
    return rx_set_error(ctx, RX_ERR_ARGUMENT, "twice takes one argument");
  *ret = rx_alloc_tensor(ctx, F32, rx_tensor_ndim(args[0]), rx_tensor_shape(args[0]));
  if (!*ret)
    return rx_last_status(ctx);
  const float *x = rx_tensor_data(args[0]);
  float *y = rx_tensor_data(*ret);
  for (int64_t i = 0; i < rx_tensor_elements(args[0]); i++)
    y[i] = 2 * x[i];
  return RX_OK;
}

static int32_t negate_into(RxContext *ctx, void *userdata, RxObject *const *args, int32_t nargs,
                           RxObject **ret) {
  (void)ctx, (void)userdata;
  if (nargs != 2 || ret)
    return 77;
  const float *x = rx_tensor_data(args[0]);
  float *y = rx_tensor_data(args[1]);
  for (int64_t i = 0; i < rx_tensor_elements(args[0]); i++)
    y[i] = -x[i];
  return RX_OK;
}

static int32_t nest(RxContext *ctx, int64_t depth) {
  volatile char frame[200];
  frame[0] = (char)depth;
  if ((uintptr_t)&frame[0] < ((RxContextPrefix *)ctx)->stack_limit)
    return rx_fail_stack(ctx, "nest");
  if (depth == 0)
    return RX_OK;
  int32_t status = nest(ctx, depth - 1);
  frame[1] = frame[0];
  return status;
}

static int32_t nest_body(RxContext *ctx, void *data) { return nest(ctx, *(int64_t *)data); }

/* Generated code calls the host, which calls generated code again, and so on. */
static int32_t descend(RxContext *ctx, void *data);

static int32_t host_step(RxContext *ctx, void *userdata, RxObject *const *args, int32_t nargs,
                         RxObject **ret) {
  (void)args, (void)nargs, (void)ret;
  char here;
  char *host = ((void **)userdata)[1];
  int64_t away = &here > host ? &here - host : host - &here;
  if (away > (4 << 20))
    return rx_set_error(ctx, RX_ERR_INTERNAL, "not on the host's stack");
  return rx_call_on_stack(ctx, descend, userdata);
}

static int32_t descend(RxContext *ctx, void *data) {
  int64_t *left = ((void **)data)[0];
  int64_t depth = 10000;
  if (nest(ctx, depth) != RX_OK)
    return RX_ERR_STACK;
  if ((*left)-- == 0)
    return RX_OK;
  volatile char frame[20000];
  frame[0] = frame[19999] = (char)*left;
  int32_t status = rx_call_dps_packed(ctx, "step", NULL, 0);
  return status || frame[0] != frame[19999] ? status | 64 : RX_OK;
}

static void add_range(void *data, int64_t begin, int64_t end, int32_t worker) {
  (void)worker;
  for (int64_t i = begin; i < end; i++)
    ((int *)data)[i] += 1;
}

static int32_t add_entry(RxContext *ctx, RxClosure *self, RxObject *const *args, int32_t nargs,
                         RxObject **out) {
  double sum = *(double *)rx_tensor_data(self->captures[0]);
  for (int32_t i = 0; i < nargs; i++) {
    sum += *(double *)rx_tensor_data(args[i]);
    rx_release(ctx, args[i]);
  }
  DLDataType f64 = {kDLFloat, 64, 1};
  *out = rx_scalar_f64(ctx, f64, sum);
  return *out ? RX_OK : RX_ERR_MEMORY;
}

static int destroyed = 0;
static void destroy(void *pointer) { destroyed += *(int *)pointer; }

static int deleted = 0;
static void end_import(DLManagedTensor *self) {
  (void)self;
  deleted++;
}

static void values(RxContext *ctx) {
  int64_t shape[] = {2, 3};
  float data[] = {1, 2, 3, 4, 5, 6};
  RxObject *t = rx_tensor_copy(ctx, F32, 2, shape, data);
  CHECK(t && rx_kind(t) == RX_TENSOR && rx_tensor_ndim(t) == 2 && rx_tensor_shape(t)[1] == 3);
  CHECK(rx_tensor_nbytes(t) == 24 && (uintptr_t)rx_tensor_data(t) % 64 == 0);
  CHECK(rx_is_unique(t));
  int64_t half[] = {3};
  RxObject *view = rx_tensor_view(ctx, t, 12, F32, 1, half);
  CHECK(view && ((float *)rx_tensor_data(view))[0] == 4 && !rx_is_unique(t));
  RxObject *deeper = rx_tensor_view(ctx, view, 4, F32, 1, (int64_t[]){2});
  CHECK(deeper && ((RxTensor *)deeper)->owner == t);
  CHECK(!rx_tensor_view(ctx, view, 4, F32, 1, half));
  CHECK(rx_last_status(ctx) == RX_ERR_SHAPE && strstr(rx_last_error(ctx), "12 bytes at 4"));
  rx_release(ctx, view);
  rx_release(ctx, t);
  CHECK(((float *)rx_tensor_data(deeper))[1] == 6 && rx_is_unique(deeper));
  rx_release(ctx, deeper);

  t = rx_tensor_copy(ctx, F32, 2, shape, data);
  RxObject *same = t;
  t = rx_tensor_reshape(ctx, t, 3, (int64_t[]){1, 3, 2});
  CHECK(t == same && rx_tensor_shape(t)[2] == 2);
  rx_retain(t);
  RxObject *other = rx_tensor_reshape(ctx, t, 1, (int64_t[]){6});
  CHECK(other && other != t && rx_tensor_data(other) == rx_tensor_data(t));
  CHECK(!rx_tensor_reshape(ctx, other, 1, (int64_t[]){7}));
  CHECK(strstr(rx_last_error(ctx), "[6]") && strstr(rx_last_error(ctx), "[7]"));
  rx_retain(t);
  other = rx_tensor_unique(ctx, t);
  CHECK(other != t && ((float *)rx_tensor_data(other))[5] == 6);
  rx_release(ctx, other);
  CHECK(rx_check_tensor(ctx, t, "%x", F32, 3, (int64_t[]){-1, 3, 2}) == RX_OK);
  CHECK(rx_check_tensor(ctx, t, "%x", I64, -1, NULL) == RX_ERR_DTYPE);
  CHECK(!strcmp(rx_last_error(ctx), "%x should have elements of type int64, but has float32"));
  CHECK(rx_check_tensor(ctx, t, "%x", F32, 2, (int64_t[]){-1, 4}) == RX_ERR_SHAPE);
  CHECK(!strcmp(rx_last_error(ctx), "%x should have shape (?, 4), but has (1, 3, 2)"));
  rx_release(ctx, t);

  int64_t bad[] = {-1}, huge[] = {1 << 30, 1 << 30, 1 << 30};
  CHECK(!rx_alloc_tensor(ctx, F32, 1, bad) && rx_last_status(ctx) == RX_ERR_SHAPE);
  CHECK(!rx_alloc_tensor(ctx, F32, 3, huge) && rx_last_status(ctx) == RX_ERR_MEMORY);
  int64_t none[] = {0, 5};
  t = rx_alloc_tensor(ctx, F32, 2, none);
  CHECK(t && rx_tensor_nbytes(t) == 0 && rx_tensor_elements(t) == 0);
  rx_release(ctx, t);

  RxObject *one = rx_scalar_i64(ctx, I64, 41);
  CHECK(*(int64_t *)rx_tensor_data(one) == 41 && rx_tensor_ndim(one) == 0);
  RxObject *fields[] = {one, rx_unit(), rx_make_string(ctx, "abc", 3)};
  rx_retain(one);
  RxObject *adt = rx_make_adt(ctx, 7, 3, fields);
  CHECK(rx_tag(adt) == 7 && rx_field_count(adt) == 3 && rx_field(adt, 0) == one);
  CHECK(!strcmp(rx_string_bytes(rx_field(adt, 2)), "abc") && !rx_field(adt, 3));
  RxObject *cell = rx_alloc_ref(ctx, adt);
  CHECK(rx_field(cell, 0) == adt && one->refs == 2);
  rx_ref_set(ctx, cell, rx_make_shape(ctx, 2, shape));
  CHECK(one->refs == 1 && rx_shape_dims(rx_field(cell, 0))[1] == 3);
  rx_release(ctx, cell);
  rx_release(ctx, one);
  rx_release(ctx, NULL);
  rx_retain(rx_unit());
  rx_release(ctx, rx_unit());
  CHECK(rx_unit()->refs == RX_IMMORTAL && rx_kind(rx_unit()) == RX_TUPLE);

  int weight = 3;
  RxObject *host = rx_make_foreign(ctx, &weight, destroy);
  RxObject *pair[] = {host, host};
  rx_retain(host);
  RxObject *tuple = rx_make_tuple(ctx, 2, pair);
  CHECK(rx_foreign_pointer(rx_field(tuple, 1)) == &weight);
  rx_release(ctx, tuple);
  CHECK(destroyed == 3);

  DLDataType f64 = {kDLFloat, 64, 1};
  RxClosure *closure = (RxClosure *)rx_alloc_closure(ctx, 2, 1);
  closure->entry = add_entry;
  closure->captures[0] = rx_scalar_f64(ctx, f64, 0.5);
  RxObject *args[] = {rx_scalar_f64(ctx, f64, 1), rx_scalar_f64(ctx, f64, 2)}, *out;
  CHECK(rx_call_closure(ctx, &closure->header, args, 2, &out) == RX_OK);
  CHECK(*(double *)rx_tensor_data(out) == 3.5);
  CHECK(rx_call_closure(ctx, &closure->header, &out, 1, &out) == RX_ERR_ARGUMENT && !out);
  rx_release(ctx, &closure->header);

  void *scratch = rx_scratch_alloc(ctx, 100);
  CHECK(scratch && (uintptr_t)scratch % 64 == 0);
  rx_scratch_free(ctx, scratch);
}

static void lists(RxContext *ctx) {
  RxObject *list = rx_alloc_adt(ctx, 1, 0);
  for (int i = 0; i < 10000000; i++) {
    RxObject *cell = rx_alloc_adt(ctx, 0, 2);
    CHECK(cell);
    ((RxFields *)cell)->fields[0] = rx_unit();
    ((RxFields *)cell)->fields[1] = list;
    list = cell;
  }
  rx_release(ctx, list);
  RxHeapStats stats;
  rx_heap_stats(ctx, &stats);
  CHECK(stats.live_objects == 0 && stats.live_bytes == 0);
}

static void packed(RxContext *ctx) {
  int calls = 0;
  CHECK(rx_register_packed(ctx, "twice", twice, &calls) == RX_OK);
  CHECK(rx_register_packed(ctx, "negate", negate_into, NULL) == RX_OK);
  CHECK(rx_register_packed(ctx, "", twice, NULL) == RX_ERR_ARGUMENT);
  CHECK(rx_has_packed(ctx, "twice") && !rx_has_packed(ctx, "thrice"));
  int64_t shape[] = {3};
  float data[] = {1, 2, 3};
  RxObject *x = rx_tensor_borrow(ctx, F32, 1, shape, data), *y;
  CHECK(rx_call_packed(ctx, "twice", &x, 1, &y) == RX_OK && calls == 1);
  CHECK(((float *)rx_tensor_data(y))[2] == 6 && !rx_is_unique(x));
  RxObject *both[] = {y, x};
  CHECK(rx_call_dps_packed(ctx, "negate", both, 2) == RX_OK && data[1] == -4);
  RxObject *none;
  CHECK(rx_call_packed(ctx, "twice", both, 2, &none) == RX_ERR_PACKED && !none);
  CHECK(strstr(rx_last_error(ctx), "\"twice\" failed: twice takes one argument"));
  CHECK(rx_call_dps_packed(ctx, "negate", both, 1) == RX_ERR_PACKED);
  CHECK(strstr(rx_last_error(ctx), "status 77"));
  CHECK(rx_call_packed(ctx, "thrice", both, 2, &none) == RX_ERR_PACKED && !none);
  CHECK(strstr(rx_last_error(ctx), "no packed function \"thrice\""));
  rx_release(ctx, x);
  rx_release(ctx, y);
}

static void dlpack(RxContext *ctx) {
  float data[] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {3, 2}, strides[] = {1, 3};
  DLManagedTensor from = {{data, {kDLCPU, 0}, 2, F32, shape, strides, 0}, NULL, end_import};
  RxObject *t = rx_from_dlpack(ctx, &from);
  CHECK(t && deleted == 1 && ((float *)rx_tensor_data(t))[1] == 3);
  rx_release(ctx, t);
  from.dl_tensor.strides = NULL;
  from.dl_tensor.byte_offset = 4;
  shape[0] = 2;
  t = rx_from_dlpack(ctx, &from);
  CHECK(t && deleted == 1 && rx_tensor_data(t) == data + 1 && !rx_is_unique(t));
  DLManagedTensor *to = rx_to_dlpack(ctx, t);
  CHECK(to && to->dl_tensor.data == data + 1 && to->dl_tensor.shape[1] == 2);
  to->deleter(to);
  CHECK(deleted == 2);
  from.dl_tensor.device.device_type = 2;
  CHECK(!rx_from_dlpack(ctx, &from) && strstr(rx_last_error(ctx), "device type 2"));
}

static void stacks(RxContext *ctx) {
  int64_t depth = 1000000;
  CHECK(rx_call_on_stack(ctx, nest_body, &depth) == RX_OK);
  char here;
  int64_t left = 20;
  void *state[] = {&left, &here};
  CHECK(rx_register_packed(ctx, "step", host_step, state) == RX_OK);
  CHECK(rx_call_on_stack(ctx, descend, state) == RX_OK && left == -1);
  CHECK(rx_call_on_stack(ctx, nest_body, &depth) == RX_OK);
  CHECK(rx_set_stack_size(ctx, 8 << 20) == RX_OK);
  CHECK(rx_call_on_stack(ctx, nest_body, &depth) == RX_ERR_STACK);
  CHECK(strstr(rx_last_error(ctx), "nest: calls nest deeper"));
  CHECK(rx_set_stack_size(ctx, 0) == RX_OK);
  CHECK(rx_call_on_stack(ctx, nest_body, &depth) == RX_ERR_STACK);
  depth = 100;
  CHECK(rx_call_on_stack(ctx, nest_body, &depth) == RX_OK);
  CHECK(((RxContextPrefix *)ctx)->stack_limit == 0);
}

static void errors(RxContext *ctx) {
  CHECK(rx_fail_dim(ctx, "model.relay:3:5", "dimension n of %x", 4, 5) == RX_ERR_SHAPE);
  CHECK(!strcmp(rx_last_error(ctx), "model.relay:3:5: dimension n of %x should be 4, but is 5"));
  CHECK(((RxContextPrefix *)ctx)->status == RX_ERR_SHAPE);
  rx_clear_error(ctx);
  CHECK(rx_last_status(ctx) == RX_OK && !strcmp(rx_last_error(ctx), ""));
  CHECK(rx_fail_match(ctx, NULL) == RX_ERR_MATCH);
  CHECK(rx_fail_int(ctx, RX_ERR_ARITHMETIC, NULL, "division by", 0) == RX_ERR_ARITHMETIC);
  CHECK(!strcmp(rx_last_error(ctx), "division by: 0"));
  CHECK(rx_set_error(ctx, RX_ERR_MATCH, NULL) == RX_ERR_MATCH);
}

static void threads(RxContext *ctx) {
  static int hits[100003];
  for (int count = 1; count <= 3; count++) {
    CHECK(rx_set_threads(ctx, count) == RX_OK);
    CHECK(((RxContextPrefix *)ctx)->threads == count);
    for (int round = 0; round < 200; round++)
      rx_parallel_for(ctx, 100003, 100, add_range, hits);
  }
  for (int i = 0; i < 100003; i++)
    CHECK(hits[i] == 600);
  CHECK(rx_set_threads(ctx, -1) == RX_ERR_ARGUMENT);
  rx_parallel_for(ctx, 0, 1, add_range, hits);
}

static void kernels(RxContext *ctx) {
  float a[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0, 1, 0, 1, 0}, bias[] = {-5, 1}, c[4];
  RxGemmF32 g = {0};
  g.m = 2, g.n = 2, g.k = 3;
  g.a = a, g.a_rs = 3, g.a_cs = 1;
  g.b = w, g.b_rs = 1, g.b_cs = 3;
  g.c = c, g.c_ld = 2;
  g.epilogue.bias = bias, g.epilogue.bias_axis = RX_BIAS_COLUMN;
  g.epilogue.activation = RX_ACT_RELU;
  CHECK(rx_gemm_f32(ctx, &g) == RX_OK);
  CHECK(c[0] == 0 && c[1] == 3 && c[2] == 5 && c[3] == 6);
  float y[6];
  CHECK(rx_softmax(ctx, 2, 3, a, y, RX_FLOAT32, 0) == RX_OK);
  CHECK(fabsf(y[0] + y[1] + y[2] - 1) < 1e-6f);
  CHECK(rx_transpose(ctx, 4, 2, (int64_t[]){2, 3}, (int32_t[]){1, 0}, a, y) == RX_OK);
  CHECK(y[1] == 4 && y[4] == 3);
  rx_vexp_f32(6, a, y);
  CHECK(fabsf(y[1] - expf(2)) < 1e-5f);
}

static void no_memory(void) {
  /* Whatever allocation fails, the result is an error and nothing leaks. */
  for (long limit = 0; limit < 6; limit++) {
    RxContext *ctx = rx_context_create();
    RxAllocator allocator = {count_alloc, count_free, NULL};
    CHECK(rx_set_allocator(ctx, &allocator) == RX_OK);
    allowed = limit;
    RxObject *list = rx_unit();
    int failed = 0;
    for (int i = 0; i < 8 && !failed; i++) {
      int64_t shape[] = {1000 << i};
      RxObject *fields[] = {rx_alloc_tensor(ctx, F32, 1, shape), list};
      list = rx_make_tuple(ctx, 2, fields);
      failed = !list || !fields[0];
    }
    CHECK(failed && rx_last_status(ctx) == RX_ERR_MEMORY);
    CHECK(strstr(rx_last_error(ctx), "out of memory"));
    rx_release(ctx, list);
    rx_context_destroy(ctx);
    allowed = -1;
    CHECK(live_blocks == 0);
  }
}

int main(void) {
  RxContext *ctx = rx_context_create();
  CHECK(ctx && rx_abi_version() == RX_ABI_VERSION);
  RxAllocator allocator = {count_alloc, count_free, NULL};
  CHECK(rx_set_allocator(ctx, &allocator) == RX_OK);
  values(ctx);
  CHECK(rx_set_allocator(ctx, &allocator) == RX_ERR_ARGUMENT);
  errors(ctx);
  packed(ctx);
  dlpack(ctx);
  stacks(ctx);
  threads(ctx);
  kernels(ctx);
  if (!getenv("RELAX_TEST_SMALL"))
    lists(ctx);
  RxHeapStats stats;
  rx_heap_stats(ctx, &stats);
  CHECK(stats.live_objects == 0);
  RxObject *last = rx_scalar_i64(ctx, I64, 1);
  rx_context_destroy(ctx);
  if (live_blocks == 0) /* the heap must outlive the context while a value does */
    return 2;
  rx_release(ctx, last);
  if (live_blocks != 0)
    return 3;
  no_memory();
  puts("ok");
  return 0;
}
