/* Calls an object that relaxc made, from C: tensors in and out by DLPack, a function registered by name.
 *
 *   relaxc examples/call_packed.relay -o model.o
 *   relaxc examples/call_packed.relay -o model.h --emit header
 *   cc -I crates/runtime/include model.c model.o librelax_runtime.a -lpthread -ldl -lm
 *
 * The program has two packed functions, which the host brings along: `host.print` looks at a tensor,
 * `host.tile` writes its argument twice, side by side, into a tensor that the program allocates.
 */
#include "model.h"
#include <stdio.h>
#include <string.h>

static int32_t print(RxContext *ctx, void *userdata, RxObject *const *args, int32_t nargs,
                     RxObject **ret) {
  (void)ctx, (void)userdata, (void)nargs;
  const int64_t *shape = rx_tensor_shape(args[0]);
  printf("host.print: (%lld, %lld)\n", (long long)shape[0], (long long)shape[1]);
  *ret = rx_unit();
  return RX_OK;
}

static int32_t tile(RxContext *ctx, void *userdata, RxObject *const *args, int32_t nargs,
                    RxObject **ret) {
  (void)userdata, (void)ret;
  if (nargs != 2) return rx_fail(ctx, RX_ERR_ARGUMENT, "host.tile", "takes an input and an output");
  const int64_t *shape = rx_tensor_shape(args[0]);
  size_t row = (size_t)shape[1] * sizeof(float);
  const char *from = rx_tensor_data(args[0]);
  char *to = rx_tensor_data(args[1]);
  for (int64_t i = 0; i < shape[0]; i++) {
    memcpy(to + 2 * i * row, from + i * row, row);
    memcpy(to + (2 * i + 1) * row, from + i * row, row);
  }
  return RX_OK;
}

static void unused(struct DLManagedTensor *self) { (void)self; }

int main(void) {
  RxContext *ctx = rx_context_create();
  if (!ctx) return 2;
  rx_set_threads(ctx, 2);
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  RxObject *out = NULL;

  /* A tensor by DLPack, as any framework hands them out: nothing is copied. */
  DLManagedTensor managed;
  memset(&managed, 0, sizeof managed);
  managed.dl_tensor.data = data;
  managed.dl_tensor.device.device_type = kDLCPU;
  managed.dl_tensor.ndim = 2;
  managed.dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  managed.dl_tensor.shape = shape;
  managed.deleter = unused;
  RxObject *x = rx_from_dlpack(ctx, &managed);
  if (!x) {
    fprintf(stderr, "%s\n", rx_last_error(ctx));
    return 1;
  }

  /* Without the functions the call fails and says why; nothing is lost. */
  if (relax_main(ctx, &x, 1, &out) == RX_OK) return 3;
  printf("error: %s\n", rx_last_error(ctx));
  rx_clear_error(ctx);

  rx_register_packed(ctx, "host.print", print, NULL);
  rx_register_packed(ctx, "host.tile", tile, NULL);
  if (relax_main(ctx, &x, 1, &out) != RX_OK) {
    fprintf(stderr, "%s\n", rx_last_error(ctx));
    return 1;
  }
  DLManagedTensor *result = rx_to_dlpack(ctx, out);
  const float *y = result->dl_tensor.data;
  for (int i = 0; i < 12; i++) printf("%g%c", y[i], i % 6 == 5 ? '\n' : ' ');
  result->deleter(result);
  rx_release(ctx, x);

  RxHeapStats stats;
  rx_heap_stats(ctx, &stats);
  printf("live objects: %llu\n", (unsigned long long)stats.live_objects);
  rx_context_destroy(ctx);
  return 0;
}
