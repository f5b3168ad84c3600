/* relax_runtime.h: values, contexts, errors and packed functions of the Relax runtime.
 *
 * The exact layouts here are the contract between generated objects, the runtime and host
 * programs; docs/values.md explains them. Everything is plain C11 and usable from C++.
 *
 * Ownership words: "owned" results must be given to rx_release by the receiver; "borrowed"
 * arguments and results stay the property of whoever held them before. A function that
 * returns a pointer returns NULL on failure; a function that returns int32_t returns RX_OK
 * (0) or an RxStatus. After a failure rx_last_error(ctx) says what happened.
 *
 * Threads: a context and all its values belong to one thread at a time (reference counts
 * are plain integers). Use one context per thread; constants of an object file are immortal
 * and may be shared by all.
 */
#ifndef RELAX_RUNTIME_H
#define RELAX_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Members without a fixed length end some structures, in C++ too. */
#if defined(__GNUC__)
#define RX_EXTENSION __extension__
#else
#define RX_EXTENSION
#endif

#define RX_ABI_VERSION 1

/* ---- status codes ------------------------------------------------------------------ */

typedef enum RxStatus {
  RX_OK = 0,
  RX_ERR_MEMORY = 1,   /* an allocation failed */
  RX_ERR_SHAPE = 2,    /* a run-time dimension or shape check failed */
  RX_ERR_DTYPE = 3,    /* an element type was not the expected one */
  RX_ERR_STACK = 4,    /* calls nested deeper than the stack allows */
  RX_ERR_PACKED = 5,   /* a packed function is unknown or reported failure */
  RX_ERR_MATCH = 6,    /* no clause of a match applied */
  RX_ERR_ARGUMENT = 7, /* a wrong argument: kind, count, null pointer, index */
  RX_ERR_ARITHMETIC = 8, /* integer division by zero and the like */
  RX_ERR_INTERNAL = 9, /* a defect of the runtime itself, reported instead of a crash */
  RX_ERR_BOUNDS = 10,  /* a tensor program left a buffer */
  RX_ERR_ASSERTION = 11, /* an assertion of a tensor program does not hold */
  RX_ERR_OVERLAP = 12, /* a tensor was placed over one that is still used */
  RX_ERR_EXTENT = 13   /* an extent is not the one that a tensor program needs */
} RxStatus;

/* ---- DLPack (version 0.x structures; repeated here so that no other header is needed) - */

#ifndef DLPACK_DLPACK_H_
typedef enum {
  kDLCPU = 1
} DLDeviceType;
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
} DLDataTypeCode;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL means row-major and compact */
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
#endif

/* ---- values ------------------------------------------------------------------------ */

typedef enum RxKind {
  RX_TENSOR = 1,
  RX_TUPLE = 2,   /* the unit value is the tuple of no fields */
  RX_ADT = 3,
  RX_CLOSURE = 4,
  RX_REF = 5,
  RX_SHAPE = 6,
  RX_FOREIGN = 7, /* a host pointer with a destructor */
  RX_STRING = 8,
  RX_RAW = 9      /* scratch memory; never a program's value */
} RxKind;

/* Reference counts with the top bit set are immortal: never written, never freed.
 * Objects in read-only data use exactly this value. */
#define RX_IMMORTAL 0x80000000u

/* Every value starts with this header: 16 bytes, at a 16-byte aligned address. */
typedef struct RxObject {
  uint32_t refs;   /*  0: reference count, plain; immortal when >= 0x80000000 */
  uint8_t kind;    /*  4: RxKind */
  uint8_t flags;   /*  5: zero for now */
  uint16_t cls;    /*  6: the heap's size class, 65535: a large block; 0 in read-only data */
  uint32_t tag;    /*  8: Adt: constructor number; Closure: arity; Tensor: RxStorage; else 0 */
  uint32_t count;  /* 12: Tuple, Adt: fields; Closure: captures; Shape: dimensions;
                          String: bytes; Tensor: 0 */
} RxObject;

typedef enum RxStorage {
  RX_STORAGE_OWN = 0,      /* data lies in the tensor's own block */
  RX_STORAGE_BORROWED = 1, /* somebody else's memory, never freed; owner is NULL */
  RX_STORAGE_VIEW = 2,     /* data belongs to the tensor `owner` (retained, itself no view) */
  RX_STORAGE_DLPACK = 3    /* owner is a DLManagedTensor whose deleter runs at the end */
} RxStorage;

/* Tensors are always compact and row-major. 64 bytes, 64-byte aligned when the runtime
 * made them. `data` is 64-byte aligned when the runtime allocated it, except that a scalar
 * (ndim 0) keeps its value in `scalar`, and then data == &scalar. */
typedef struct RxTensor {
  RxObject header;   /*  0 */
  DLDataType dtype;  /* 16: code, bits, lanes; booleans are {kDLBool, 8, 1} */
  int32_t ndim;      /* 20 */
  void *data;        /* 24 */
  int64_t *shape;    /* 32: ndim extents (may be NULL when ndim is 0) */
  uint64_t nbytes;   /* 40: product of the shape times the element size */
  void *owner;       /* 48: see RxStorage */
  uint64_t scalar;   /* 56: storage of a 0-dimensional tensor */
} RxTensor;

typedef struct RxFields { /* Tuple and Adt */
  RxObject header;
  RX_EXTENSION RxObject *fields[]; /* 16: header.count of them */
} RxFields;

typedef struct RxContext RxContext;
typedef struct RxClosure RxClosure;

/* The C entry of a closure: arguments are owned by the callee, *out is owned by the
 * caller. `nargs` equals the arity. */
typedef int32_t (*RxClosureEntry)(RxContext *ctx, RxClosure *self, RxObject *const *args,
                                  int32_t nargs, RxObject **out);

struct RxClosure {
  RxObject header;       /*  0: tag = arity, count = captures */
  const void *code;      /* 16: the generated code, in the code generator's own convention */
  RxClosureEntry entry;  /* 24: the same function for C callers */
  RX_EXTENSION RxObject *captures[];  /* 32 */
};

typedef struct RxRef {
  RxObject header;
  RxObject *value; /* 16 */
} RxRef;

typedef struct RxShape {
  RxObject header;
  RX_EXTENSION int64_t dims[]; /* 16: header.count of them */
} RxShape;

typedef struct RxForeign {
  RxObject header;
  void *pointer;                  /* 16 */
  void (*destroy)(void *pointer); /* 24: may be NULL */
} RxForeign;

typedef struct RxString {
  RxObject header;
  RX_EXTENSION char bytes[]; /* 16: header.count bytes of UTF-8, then a NUL */
} RxString;

/* ---- context ----------------------------------------------------------------------- */

/* The part of a context that generated code reads. The rest is private. */
typedef struct RxContextPrefix {
  uintptr_t stack_limit; /* 0: code whose stack pointer is below this must fail (RX_ERR_STACK) */
  int32_t status;        /* 8: the last error's RxStatus, RX_OK when there is none */
  int32_t threads;       /* 12: the number of threads parallel loops use, the caller's included */
} RxContextPrefix;

typedef struct RxAllocator {
  /* Returns `size` bytes at a multiple of `align` (a power of two), or NULL. */
  void *(*alloc)(void *user, size_t size, size_t align);
  void (*free)(void *user, void *pointer, size_t size, size_t align);
  void *user;
} RxAllocator;

typedef struct RxHeapStats {
  uint64_t live_objects;  /* objects and scratch blocks not yet released */
  uint64_t live_bytes;    /* bytes of them, rounded to size classes */
  uint64_t held_bytes;    /* bytes got from the allocator and not given back */
  uint64_t peak_bytes;    /* the highest held_bytes so far */
  uint64_t system_allocs; /* calls of the allocator so far; constant in the steady state */
} RxHeapStats;

int32_t rx_abi_version(void);
/* A context with one thread, or NULL when there is no memory. */
RxContext *rx_context_create(void);
/* Stops the threads. The memory goes when the last value of the context is released. */
void rx_context_destroy(RxContext *ctx);
/* Only before the context's first allocation; the structure is copied. */
int32_t rx_set_allocator(RxContext *ctx, const RxAllocator *allocator);
/* Number of threads for parallel loops, the calling one included; 0: one per processor. On Linux each of the others is
 * bound to a processor that the caller is not on, where the process may use so many. */
int32_t rx_set_threads(RxContext *ctx, int32_t threads);
/* Stack reserved for generated code (address space; memory is used as calls nest), 2 GiB or
 * half of the machine's memory unless said otherwise.
 * Zero runs generated code on the caller's own stack. */
int32_t rx_set_stack_size(RxContext *ctx, uint64_t bytes);
void rx_heap_stats(const RxContext *ctx, RxHeapStats *out);
/* Gives cached free blocks back to the allocator. */
void rx_trim(RxContext *ctx);

/* Runs fn(ctx, data) on the context's own stack (rx_set_stack_size) with stack_limit set,
 * and returns its result. Nested calls run directly. Every C entry of a generated object
 * goes through here. */
int32_t rx_call_on_stack(RxContext *ctx, int32_t (*fn)(RxContext *, void *), void *data);

/* ---- errors ------------------------------------------------------------------------ */

/* The last error's text, "" when there is none. Valid until the next call with ctx. */
const char *rx_last_error(const RxContext *ctx);
int32_t rx_last_status(const RxContext *ctx);
void rx_clear_error(RxContext *ctx);
/* Records an error (the text is copied) and returns `status`. Packed functions use it. */
int32_t rx_set_error(RxContext *ctx, int32_t status, const char *text);
/* For generated code. `where` and `what` are NUL-terminated constants and may be NULL. */
int32_t rx_fail_dim(RxContext *ctx, const char *where, const char *what, int64_t expected,
                    int64_t found);
int32_t rx_fail_match(RxContext *ctx, const char *where);
int32_t rx_fail_stack(RxContext *ctx, const char *where);
int32_t rx_fail(RxContext *ctx, int32_t status, const char *where, const char *what);
/* As rx_fail, and appends ": " and the number. */
int32_t rx_fail_int(RxContext *ctx, int32_t status, const char *where, const char *what,
                    int64_t value);
/* As rx_fail; each "{}" in `what` stands for the next of `count` numbers. */
int32_t rx_fail_values(RxContext *ctx, int32_t status, const char *where, const char *what,
                       const int64_t *values, int32_t count);
/* For generated code, which has found that a tensor given to a kernel has an extent other than the one that it was
 * compiled for. `table` holds three words for each of `count` extents: the tensor (the number of an input, or -1 minus
 * that of an output), the axis, the extent that is needed; then a NUL-terminated message for each. */
int32_t rx_fail_extents(RxContext *ctx, const RxObject *const *inputs,
                        const RxObject *const *outputs, const int64_t *table, int64_t count);
/* Says where the call stands that the last error came from: in front of an error without a place, and
 * with `also` not 0 behind one that has its own. Returns the error's status. */
int32_t rx_fail_at(RxContext *ctx, const char *where, int32_t also);
/* For generated code, whose data describes the call of a kernel: allocates the results as `given` says, calls it, and
 * releases the inputs that it was the last to use. Not 0 after an error. */
typedef struct RxLaunch RxLaunch;
int32_t rx_launch(RxContext *ctx, const RxLaunch *launch, RxObject *const *inputs,
                  RxObject **outputs, const int64_t *given);

/* ---- making values ----------------------------------------------------------------- */

/* All return owned values with one reference, or NULL. Contents are uninitialised where
 * not said otherwise, and must be filled before anything else is called. */
RxObject *rx_alloc_tensor(RxContext *ctx, DLDataType dtype, int32_t ndim, const int64_t *shape);
/* `dead` with one reference more when nobody else holds it and it has this type and these extents; a new
 * tensor otherwise. For results that are computed element by element from `dead`. */
RxObject *rx_reuse_tensor(RxContext *ctx, RxObject *dead, DLDataType dtype, int32_t ndim,
                          const int64_t *shape);
/* The same for results that begin with the elements of `dead` and go on along the first axis, where its block
 * has room; the extents change when rx_tensor_grown says so. */
RxObject *rx_grow_tensor(RxContext *ctx, RxObject *dead, DLDataType dtype, int32_t ndim,
                         const int64_t *shape);
void rx_tensor_grown(RxObject *tensor, const int64_t *shape);
RxObject *rx_alloc_tuple(RxContext *ctx, uint32_t fields);
RxObject *rx_alloc_adt(RxContext *ctx, uint32_t tag, uint32_t fields);
RxObject *rx_alloc_closure(RxContext *ctx, uint32_t arity, uint32_t captures);
RxObject *rx_alloc_ref(RxContext *ctx, RxObject *owned_value);
RxObject *rx_alloc_shape(RxContext *ctx, uint32_t ndim);

/* Copies: dimensions, elements, text. */
RxObject *rx_make_shape(RxContext *ctx, uint32_t ndim, const int64_t *dims);
RxObject *rx_make_tuple(RxContext *ctx, uint32_t fields, RxObject *const *owned_fields);
RxObject *rx_make_adt(RxContext *ctx, uint32_t tag, uint32_t fields, RxObject *const *owned_fields);
RxObject *rx_make_string(RxContext *ctx, const char *bytes, uint64_t length);
RxObject *rx_make_foreign(RxContext *ctx, void *pointer, void (*destroy)(void *));
RxObject *rx_tensor_copy(RxContext *ctx, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         const void *data);
/* Wraps memory that the caller keeps alive and unchanged as long as the tensor lives. Booleans are
 * bytes of 0 and 1 here; where others are among them, the tensor is a copy with 1 in their place. */
RxObject *rx_tensor_borrow(RxContext *ctx, DLDataType dtype, int32_t ndim, const int64_t *shape,
                           void *data);
/* A tensor over `base`'s memory from a byte offset on; `base` is borrowed and retained. */
RxObject *rx_tensor_view(RxContext *ctx, RxObject *base, uint64_t byte_offset, DLDataType dtype,
                         int32_t ndim, const int64_t *shape);
/* As rx_tensor_view for a block of memory that a program manages itself (memory.alloc_storage): fails
 * with RX_ERR_OVERLAP where a tensor that was placed there before is still alive. */
RxObject *rx_place_tensor(RxContext *ctx, RxObject *block, uint64_t byte_offset, DLDataType dtype,
                          int32_t ndim, const int64_t *shape);
/* Consumes `tensor` and returns it with another shape of as many elements (in place when
 * it has one reference, else a view). */
RxObject *rx_tensor_reshape(RxContext *ctx, RxObject *tensor, int32_t ndim, const int64_t *shape);
/* Consumes `tensor`; returns it when it may be written in place, else an owned copy. */
RxObject *rx_tensor_unique(RxContext *ctx, RxObject *tensor);
RxObject *rx_scalar_i64(RxContext *ctx, DLDataType dtype, int64_t value);
RxObject *rx_scalar_f64(RxContext *ctx, DLDataType dtype, double value);
/* The immortal unit value. */
RxObject *rx_unit(void);

/* Scratch memory from the context's heap: 64-byte aligned, freed by rx_scratch_free. */
void *rx_scratch_alloc(RxContext *ctx, uint64_t bytes);
void rx_scratch_free(RxContext *ctx, void *pointer);
/* As rx_scratch_free for all of `count` pointers. */
void rx_scratch_free_all(RxContext *ctx, void *const *pointers, int64_t count);

/* ---- reference counts -------------------------------------------------------------- */

void rx_retain(RxObject *object);                   /* NULL is allowed */
void rx_release(RxContext *ctx, RxObject *object);  /* NULL is allowed; never recurses */
/* The slow path of an inlined release: the last reference is being dropped (refs == 1). */
void rx_drop(RxContext *ctx, RxObject *object);
/* 1 when `object` may be changed in place: one reference, and memory that is its own. */
int32_t rx_is_unique(const RxObject *object);

/* ---- looking into values (borrowed results; wrong kinds give 0 or NULL) ------------- */

int32_t rx_kind(const RxObject *object);
uint32_t rx_tag(const RxObject *object);
uint32_t rx_field_count(const RxObject *object);
RxObject *rx_field(const RxObject *object, uint32_t index); /* Tuple, Adt, Closure, Ref(0) */
int32_t rx_tensor_ndim(const RxObject *object);
const int64_t *rx_tensor_shape(const RxObject *object);
DLDataType rx_tensor_dtype(const RxObject *object);
void *rx_tensor_data(const RxObject *object);
uint64_t rx_tensor_nbytes(const RxObject *object);
int64_t rx_tensor_elements(const RxObject *object);
const int64_t *rx_shape_dims(const RxObject *object);
const char *rx_string_bytes(const RxObject *object);
void *rx_foreign_pointer(const RxObject *object);
/* Writes a reference cell: consumes `owned_value` and releases the old value. */
void rx_ref_set(RxContext *ctx, RxObject *ref, RxObject *owned_value);
/* Calls a closure from C: arguments are consumed, *out is owned. */
int32_t rx_call_closure(RxContext *ctx, RxObject *closure, RxObject *const *owned_args,
                        int32_t nargs, RxObject **out);

/* ---- checks for entries ------------------------------------------------------------ */

/* RX_OK when `object` is a tensor of this dtype and, dimension by dimension, this shape
 * (-1: any); ndim -1: any rank. Otherwise an error that names `what`. */
int32_t rx_check_tensor(RxContext *ctx, const RxObject *object, const char *what,
                        DLDataType dtype, int32_t ndim, const int64_t *shape);

/* An array that a kernel may touch. */
typedef struct RxArray {
  const void *data;
  int64_t bytes;
} RxArray;

/* RX_OK when everything that a call of a kernel (by its name, with these words as arguments behind the
 * context) touches lies in one of the arrays. Code compiled under RELAX_CHECK=1 asks before each call. */
int32_t rx_check_reach(RxContext *ctx, const char *kernel, const int64_t *args, int32_t nargs,
                       const RxArray *arrays, int32_t n);

/* For entries of generated code: RX_OK when nargs is `wanted`, no argument is NULL and `out` is not; otherwise
 * RX_ERR_ARGUMENT, with a message that names `place`. */
int32_t rx_check_call(RxContext *ctx, const char *place, RxObject *const *args, int32_t nargs,
                      int32_t wanted, RxObject **out);

/* RX_OK when a value is what a description that the compiler wrote says of it and all its parts: kinds, ranks, element
 * types, constructors with their fields, numbers of parameters. Entries of generated code ask this of data values,
 * tuples and functions; otherwise an error with a message that names `place`. */
int32_t rx_check_value(RxContext *ctx, const RxObject *value, const int64_t *description,
                       const char *place);

/* ---- DLPack ------------------------------------------------------------------------ */

/* Takes over `managed` (its deleter runs when the tensor goes). Memory that is not compact
 * and row-major, and booleans other than 0 and 1, are copied, and `managed` deleted at once. On failure the caller keeps it. */
RxObject *rx_from_dlpack(RxContext *ctx, DLManagedTensor *managed);
/* Consumes `tensor`. The result's deleter gives it back to ctx; call it on ctx's thread. */
DLManagedTensor *rx_to_dlpack(RxContext *ctx, RxObject *tensor);

/* ---- packed functions -------------------------------------------------------------- */

/* Arguments are borrowed. Through rx_call_packed, *ret is NULL at entry, and the function
 * may store an owned value there (left NULL: the unit value). Through rx_call_dps_packed
 * the last arguments are the tensors to be written, and ret is NULL.
 * Returns RX_OK, or another status after rx_set_error. */
typedef int32_t (*RxPackedFn)(RxContext *ctx, void *userdata, RxObject *const *args,
                              int32_t nargs, RxObject **ret);

/* Maps the file of weights that relaxc --weights external left beside an object, once for the process. The
 * code's own entries call it first: a host may do so earlier to see an error sooner. The table is the
 * object's; see crates/runtime/src/weights.rs. */
typedef struct RxWeights RxWeights;
int32_t rx_weights_map(RxContext *ctx, const RxWeights *weights);

/* Registers or replaces; the name is copied. */
int32_t rx_register_packed(RxContext *ctx, const char *name, RxPackedFn fn, void *userdata);
/* 1 when a function of this name is registered. */
int32_t rx_has_packed(const RxContext *ctx, const char *name);
/* Arguments are borrowed; *ret is owned. */
int32_t rx_call_packed(RxContext *ctx, const char *name, RxObject *const *args, int32_t nargs,
                       RxObject **ret);
/* `args` holds the inputs, then the tensors to be written. */
int32_t rx_call_dps_packed(RxContext *ctx, const char *name, RxObject *const *args,
                           int32_t nargs);

/* ---- threads ----------------------------------------------------------------------- */

/* Handles [begin, end) of the range; `worker` is 0 (the caller) .. threads-1. */
typedef void (*RxRangeFn)(void *data, int64_t begin, int64_t end, int32_t worker);
/* Splits [0, n) among the threads. `grain` indices are surely worth a thread; where n is not
 * more, the first part is timed on the caller's, and the rest is shared if that pays (never
 * when n is below a sixteenth of `grain`). Runs inline with one thread or inside another
 * parallel loop. `fn` must not use the context. */
void rx_parallel_for(RxContext *ctx, int64_t n, int64_t grain, RxRangeFn fn, void *data);

/* ---- profiles ---------------------------------------------------------------------- */

/* What one kernel of a program compiled with profiling cost so far. */
typedef struct RxProfileRow {
  uint64_t calls; /*  0 */
  uint64_t nanos; /*  8: time in all */
  uint64_t flops; /* 16: arithmetic operations */
  uint64_t bytes; /* 24: of arguments and results */
  uint64_t least; /* 32: time of the shortest call */
} RxProfileRow;   /* 40 bytes */

/* The time, for rx_profile_end. */
uint64_t rx_profile_begin(RxContext *ctx);
/* Adds a call of a kernel; called by generated code. */
void rx_profile_end(RxContext *ctx, int32_t kernel, uint64_t start, RxObject *const *inputs,
                    int32_t n_inputs, RxObject *const *outputs, int32_t n_outputs,
                    int64_t flops);
/* Zeros when the kernel has not run. */
void rx_profile_row(const RxContext *ctx, int32_t kernel, RxProfileRow *out);
/* Forgets all rows. */
void rx_profile_clear(RxContext *ctx);

#ifdef __cplusplus
}
#endif
#endif /* RELAX_RUNTIME_H */
