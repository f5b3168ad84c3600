/* The program that relaxc --emit exe puts around an entry. The runtime reads the arguments, calls the entry and prints
 * the result; `params` holds name and type of each parameter. */
#include "model.h"
#include "params.h"

typedef struct {
  int32_t (*entry)(RxContext *, RxObject *const *, int32_t, RxObject **);
  int32_t count;
  const char *const (*params)[2];
  const char *result;
} RxProgram;

int32_t rxprogram_main(int32_t argc, char **argv, const RxProgram *program);

int main(int argc, char **argv) {
  static const RxProgram program = {ENTRY, NARGS, params, result};
  return rxprogram_main(argc, argv, &program);
}
