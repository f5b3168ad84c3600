/* relax_kernels.h: the computational kernels of the Relax runtime.
 *
 * Pointers are to compact row-major data unless strides are given; strides count elements.
 * Arrays are aligned to their elements; 64 bytes is fastest. Kernels with a context may split
 * their work over its threads and take scratch memory from its heap; they return RX_OK,
 * RX_ERR_MEMORY, or RX_ERR_ARGUMENT where a structure is NULL or asks for what there is not.
 * Kernels without one run on the calling thread and cannot fail. The instruction set
 * (portable, AVX2+FMA, AVX-512) is chosen at run time; results may differ between
 * instruction sets in rounding only, and never between numbers of threads.
 */
#ifndef RELAX_KERNELS_H
#define RELAX_KERNELS_H

#include "relax_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0 portable, 1 AVX2 with FMA, 2 AVX-512. The environment variable RELAX_ISA (portable, avx2,
 * avx512) lowers the choice; read once. */
int32_t rx_isa(void);

/* ---- matrix products ---------------------------------------------------------------- */

/* The clips differ in what NaN becomes: the lower bound, the upper one, NaN. */
enum { RX_ACT_NONE = 0, RX_ACT_RELU = 1, RX_ACT_CLIP = 2, RX_ACT_CLIP_NAN_HIGH = 3, RX_ACT_CLIP_NAN = 4 };
enum { RX_ROUND_NONE = 0, RX_ROUND_HALF = 1 /* to the nearest float16 */ };
enum { RX_BIAS_ROW = 0 /* bias[m] */, RX_BIAS_COLUMN = 1 /* bias[n] */ };

/* What happens to every element of a result before it is stored, in this order:
 * + offset, · scale, + bias, + residual, activation, rounding. All zero: nothing. */
typedef struct RxEpilogue {
  const float *bias;     /*  0: NULL: none */
  const float *residual; /*  8: NULL: none; laid out as the result; may be the result itself */
  int64_t residual_ld;   /* 16: its row stride (matrix products only) */
  int32_t bias_axis;     /* 24: RX_BIAS_ROW or RX_BIAS_COLUMN (matrix products only) */
  int32_t activation;    /* 28: RX_ACT_* */
  float lo, hi;          /* 32, 36: the clips' bounds */
  const float *scale;    /* 40: NULL: none; along bias_axis */
  int32_t rounding;      /* 48: RX_ROUND_* */
  int32_t reserved;      /* 52: zero */
  const float *offset;   /* 56: NULL: none; along bias_axis */
} RxEpilogue;            /* 64 bytes */

/* C[m,n] = epilogue(A[m,k] · B[k,n] (+ C)). Element (i, p) of A is a[i*a_rs + p*a_cs], and so
 * for B, so a transposed operand is one with its strides exchanged (nn.dense's weight
 * W[n,k]: b_rs = 1, b_cs = k). C's columns are contiguous. C overlaps neither A nor B. */
typedef struct RxGemmF32 {
  int64_t m, n, k;        /*  0, 8, 16 */
  const float *a;         /* 24 */
  int64_t a_rs, a_cs;     /* 32, 40 */
  const float *b;         /* 48 */
  int64_t b_rs, b_cs;     /* 56, 64 */
  const float *a_packed;  /* 72: not NULL: A from rx_pack_a_f32, and a is not read */
  const float *b_packed;  /* 80: not NULL: B from rx_pack_b_f32, and b is not read */
  float *c;               /* 88 */
  int64_t c_ld;           /* 96: row stride of C */
  int32_t accumulate;     /* 104: add to C's old contents */
  int32_t reserved;       /* 108: zero */
  RxEpilogue epilogue;    /* 112 */
} RxGemmF32;              /* 176 bytes */

int32_t rx_gemm_f32(RxContext *ctx, const RxGemmF32 *g);
/* `batch` products; operand x of product i starts x_step elements after that of i-1 (0: the
 * same for all). Packed operands and residual advance likewise (by c_step the residual). */
int32_t rx_batch_gemm_f32(RxContext *ctx, const RxGemmF32 *g, int64_t batch, int64_t a_step,
                          int64_t b_step, int64_t c_step);

/* Packed operands, the same on every machine, so they can be made at compile time too.
 * B: panels of 16 columns, ceil(n/16) of them, each k rows of 16 floats; missing columns are 0.
 * A: panels of 8 rows, ceil(m/8) of them, each k columns of 8 floats; missing rows are 0.
 * Sizes are in floats. */
int64_t rx_pack_b_f32_size(int64_t k, int64_t n);
void rx_pack_b_f32(int64_t k, int64_t n, const float *b, int64_t b_rs, int64_t b_cs, float *out);
int64_t rx_pack_a_f32_size(int64_t m, int64_t k);
void rx_pack_a_f32(int64_t m, int64_t k, const float *a, int64_t a_rs, int64_t a_cs, float *out);

/* The other element types: C[m,n] (+)= A · B. Integer products wrap in the result's type. */
typedef struct RxGemm {
  int64_t m, n, k;     /*  0, 8, 16 */
  const void *a;       /* 24 */
  int64_t a_rs, a_cs;  /* 32, 40 */
  const void *b;       /* 48 */
  int64_t b_rs, b_cs;  /* 56, 64 */
  void *c;             /* 72 */
  int64_t c_ld;        /* 80 */
  int32_t accumulate;  /* 88 */
  int32_t reserved;    /* 92 */
} RxGemm;              /* 96 bytes */

int32_t rx_gemm_f64(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_i8_i8_i32(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_u8_i8_i32(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_u8_u8_i32(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_i16_i16_i32(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_i32_i32_i32(RxContext *ctx, const RxGemm *g);
int32_t rx_gemm_i64_i64_i64(RxContext *ctx, const RxGemm *g);

/* Products of integers of at most 32 bits, what is in *_zero taken off every element; sums wrap. Operand x of product i
 * starts x_step elements after that of i-1 (0: the same for all). */
typedef struct RxGemmI32 {
  RxGemm gemm;             /*   0: the result is int32 */
  int32_t a_type, b_type;  /*  96, 100: RX_INT8, ... */
  int32_t a_zero, b_zero;  /* 104, 108 */
  int64_t batch;           /* 112 */
  int64_t a_step, b_step;  /* 120, 128 */
  int64_t c_step;          /* 136 */
} RxGemmI32;               /* 144 bytes */
int32_t rx_gemm_i32(RxContext *ctx, const RxGemmI32 *g);

/* Element types by number. */
enum {
  RX_INT8 = 0, RX_UINT8 = 1, RX_INT16 = 2, RX_INT32 = 3, RX_UINT16 = 4, RX_UINT32 = 5, RX_INT64 = 6, RX_UINT64 = 7,
  RX_FLOAT16 = 8, RX_BFLOAT16 = 9, RX_FLOAT32 = 10, RX_FLOAT64 = 11, RX_BOOL = 12
};

/* c[i...] = sum over r... of a[i..., r...] * b[i..., r...], every array walked in even steps along all axes: matrix
 * products, convolutions of any rank over padded data, einsum. An axis whose step in `c` is 0 is summed over. Sums are made
 * in float32 (of float16 and bfloat16), float64, or integers, which wrap in the result's type. */
typedef struct RxContract {
  int32_t axes;                   /*  0 */
  int32_t a_type, b_type, c_type; /*  4, 8, 12: RX_INT8, ... */
  const int64_t *extents;         /* 16 */
  const int64_t *steps;           /* 24: along all axes of a, then of b, then of c */
  const void *a, *b;              /* 32, 40 */
  void *c;                        /* 48: overlaps neither */
} RxContract;                     /* 56 bytes */
int32_t rx_contract(RxContext *ctx, const RxContract *contract);

/* y = bound(zero + (int32)((((x + bias) << left) * factor + half) >> right)), in 64 bits, wrapping; every table has one
 * number for each channel. */
typedef struct RxRequantize {
  int64_t outer, channels, inner; /*  0..16: extents before, of and after the axis of channels */
  const int32_t *x;               /* 24 */
  const int32_t *bias;            /* 32 */
  const int64_t *left, *factor;   /* 40, 48 */
  const int64_t *half, *right;    /* 56, 64 */
  const int32_t *zero;            /* 72 */
  int32_t low, high;              /* 80, 84: bounds, which the result's type holds */
  int32_t y_type;                 /* 88: RX_INT8, ... */
  int32_t reserved;               /* 92 */
  void *y;                        /* 96 */
} RxRequantize;                   /* 104 bytes */
int32_t rx_requantize_i32(RxContext *ctx, const RxRequantize *q);

/* ---- weights quantised in blocks ------------------------------------------------------ */

/* y[m, n] = sum over t of x[m, t] * w[n, t] * scale[n, t / block]. The weight is signed: 8 bits,
 * or 4 with two in a byte, the first one in its lower half. */
typedef struct RxBlockwiseF32 {
  int64_t m, n;                   /*  0,  8 */
  int64_t blocks, block;          /* 16, 24: blocks of a row of weights, and weights of a block */
  int32_t bits;                   /* 32: 8 or 4 */
  int32_t reserved;               /* 36 */
  const float *x;                 /* 40: [m, blocks * block] */
  const void *weight;             /* 48: [n, blocks * block * bits / 8] */
  const float *scale;             /* 56: [n, blocks] */
  float *y;                       /* 64: [m, n] */
} RxBlockwiseF32;                 /* 72 bytes */
int32_t rx_blockwise_f32(RxContext *ctx, const RxBlockwiseF32 *q);

/* ---- convolution --------------------------------------------------------------------- */

enum { RX_NCHW = 0 /* weight OIHW */, RX_NHWC = 1 /* weight HWIO; depthwise HWOI */ };

/* y[n,o,oh,ow] = epilogue(sum over the group's input channels and the window). Padding at the
 * bottom and right is what oh and ow imply. Depthwise: groups == c. In NHWC with groups, the
 * weight is [kh, kw, c/groups, o]; for depthwise with multiplier 1, [kh, kw, c, 1] is the same. */
typedef struct RxConv2dF32 {
  int64_t n, c, h, w;             /*   0.. 24: input */
  int64_t o, kh, kw;              /*  32.. 48: output channels, window */
  int64_t oh, ow;                 /*  56, 64: output */
  int64_t stride_h, stride_w;     /*  72, 80 */
  int64_t pad_t, pad_l;           /*  88, 96 */
  int64_t dilation_h, dilation_w; /* 104, 112 */
  int64_t groups;                 /* 120 */
  int32_t layout;                 /* 128: RX_NCHW or RX_NHWC */
  int32_t reserved;               /* 132 */
  const float *x;                 /* 136 */
  const float *weight;            /* 144 */
  const float *weight_packed;     /* 152: not NULL: from rx_conv2d_f32_pack; weight is not read */
  float *y;                       /* 160 */
  RxEpilogue epilogue;            /* 168: offset, scale and bias are [o]; residual is laid out as y and may be y */
} RxConv2dF32;                    /* 232 bytes */

int32_t rx_conv2d_f32(RxContext *ctx, const RxConv2dF32 *conv);
/* Floats that the packed weight takes (0: this convolution packs nothing, leave it NULL), and
 * packing itself; they read the sizes and `weight` only. */
int64_t rx_conv2d_f32_pack_size(const RxConv2dF32 *conv);
void rx_conv2d_f32_pack(const RxConv2dF32 *conv, float *out);

/* The same over volumes, where each channel has windows of its own, o / c of them; the weight is [o, kd, kh, kw], or
 * with channels last [kd, kh, kw, c] where o is c. */
typedef struct RxDepthwise3dF32 {
  int64_t n, c, d, h, w;          /*   0.. 32: input */
  int64_t o, kd, kh, kw;          /*  40.. 64: output channels, window */
  int64_t od, oh, ow;             /*  72.. 88: output */
  int64_t stride_d, stride_h, stride_w;       /*  96..112 */
  int64_t pad_d, pad_t, pad_l;                /* 120..136: before the first plane, row and column */
  int64_t dilation_d, dilation_h, dilation_w; /* 144..160 */
  int32_t layout;                 /* 168: RX_NCHW (NCDHW) or RX_NHWC (NDHWC) */
  int32_t reserved;               /* 172 */
  const float *x;                 /* 176 */
  const float *weight;            /* 184 */
  float *y;                       /* 192 */
  RxEpilogue epilogue;            /* 200: bias and scale are [o]; residual is laid out as y and may be y */
} RxDepthwise3dF32;               /* 264 bytes */
int32_t rx_depthwise3d_f32(RxContext *ctx, const RxDepthwise3dF32 *conv);

/* The transposed convolution (each input pixel times the window is added to the output at its place): channels first,
 * the weight is [c, o/groups, kh, kw], oh and ow say what padding and output padding leave. weight_packed, with one
 * group, is from rx_pack_a_f32 with m = o*kh*kw, k = c, strides 1 and m. */
int32_t rx_conv2d_transpose_f32(RxContext *ctx, const RxConv2dF32 *conv);

/* Convolution of small integers with sums of 32 bits, which wrap. The fields up to `layout` are as above. Elements are
 * brought to 16 bits; arrays of int32 whose elements do not all fit are computed one by one. */
typedef struct RxConv2dI32 {
  int64_t n, c, h, w;             /*   0.. 24 */
  int64_t o, kh, kw;              /*  32.. 48 */
  int64_t oh, ow;                 /*  56, 64 */
  int64_t stride_h, stride_w;     /*  72, 80 */
  int64_t pad_t, pad_l;           /*  88, 96 */
  int64_t dilation_h, dilation_w; /* 104, 112 */
  int64_t groups;                 /* 120 */
  int32_t layout;                 /* 128: RX_NCHW or RX_NHWC */
  int32_t x_type, weight_type;    /* 132, 136: RX_INT8, … */
  int32_t reserved;               /* 140 */
  const void *x;                  /* 144 */
  const void *weight;             /* 152 */
  int32_t *y;                     /* 160 */
  int32_t x_zero, weight_zero;    /* 168, 172: taken off every element; padding is 0 after that */
} RxConv2dI32;                    /* 176 bytes */
int32_t rx_conv2d_i32(RxContext *ctx, const RxConv2dI32 *conv);

/* Bytes by signed bytes, one group or one channel in each:
 * y = min(max(round((sum + bias[o]) * factor[o]) + y_zero, low), high), halves to even, as bytes. Where
 * factor is NULL, as rx_requantize_i32 by the tables from left to zero, and bias. */
typedef struct RxConv2dQ8 {
  int64_t n, c, h, w;             /*   0.. 24 */
  int64_t o, kh, kw;              /*  32.. 48 */
  int64_t oh, ow;                 /*  56, 64 */
  int64_t stride_h, stride_w;     /*  72, 80 */
  int64_t pad_t, pad_l;           /*  88, 96 */
  int64_t dilation_h, dilation_w; /* 104, 112 */
  int64_t groups;                 /* 120: 1 or c */
  int64_t tap_step;               /* 128: of the weight: from one tap to the next, */
  int64_t in_step, out_step;      /* 136, 144: one input channel, one output channel */
  const void *x;                  /* 152 */
  const char *weight;             /* 160: of 8 bits: signed, or with weight_zero unsigned */
  const void *packed;             /* 168: not NULL: from rx_conv2d_q8_pack; weight is not read */
  const int32_t *bias;            /* 176: or NULL */
  const float *factor;            /* 184: or NULL */
  const int64_t *left;            /* 192 */
  const int64_t *multiplier;      /* 200: the factor of rx_requantize_i32 */
  const int64_t *half;            /* 208 */
  const int64_t *right;           /* 216 */
  const int32_t *zero;            /* 224 */
  void *y;                        /* 232 */
  int64_t factors;                /* 240: how many, or numbers of each table: 1, or o */
  int32_t x_signed;               /* 248: whether x is int8, otherwise uint8 */
  int32_t x_zero;                 /* 252: taken off every element of x; padding is 0 after that */
  int32_t y_zero, low, high;      /* 256, 260, 264 */
  int32_t layout;                 /* 268: RX_NCHW or RX_NHWC, of x and y */
  const float *shift;             /* 272: added to products where results are floats: NULL, or [o] */
  float least, most;              /* 280, 284: the bounds of floats */
  int32_t floats;                 /* 288: whether results are float: products, within bounds. RX_NHWC, not depthwise */
  int32_t weight_zero;            /* 292: 0, or 1 to 255: taken off every element of the weight, which is uint8 then */
} RxConv2dQ8;                     /* 296 bytes */
int32_t rx_conv2d_q8(RxContext *ctx, const RxConv2dQ8 *conv);
int64_t rx_conv2d_q8_pack_size(const RxConv2dQ8 *conv); /* in bytes */
void rx_conv2d_q8_pack(const RxConv2dQ8 *conv, void *out);

typedef struct RxPool2dF32 {
  int64_t n, c, h, w;             /*   0.. 24 */
  int64_t kh, kw, oh, ow;         /*  32.. 56 */
  int64_t stride_h, stride_w;     /*  64, 72 */
  int64_t pad_t, pad_l;           /*  80, 88 */
  int64_t dilation_h, dilation_w; /*  96, 104 */
  int32_t layout;                 /* 112: RX_NCHW or RX_NHWC */
  int32_t op;                     /* 116: RX_POOL_* */
  const float *x;                 /* 120 */
  float *y;                       /* 128 */
} RxPool2dF32;                    /* 136 bytes */
enum { RX_POOL_MAX = 0, RX_POOL_AVG = 1 /* padding counted */, RX_POOL_AVG_VALID = 2 };
int32_t rx_pool2d_f32(RxContext *ctx, const RxPool2dF32 *pool);

/* A convolution and a pooling of its output, which is not written as a whole where that can be: conv->y and
 * pool->x are not read. */
int32_t rx_conv2d_pool2d_f32(RxContext *ctx, const RxConv2dF32 *conv, const RxPool2dF32 *pool);

/* ---- vector mathematics: y[i] = f(x[i]); y may be x ---------------------------------- */

/* Largest error against the exact result, in units in the last place (checked in the tests);
 * special values as in C's math.h; subnormal results of exp and pow flush to zero. */
void rx_vexp_f32(int64_t n, const float *x, float *y);     /* 1.5 */
void rx_vlog_f32(int64_t n, const float *x, float *y);     /* 1.5 */
void rx_vtanh_f32(int64_t n, const float *x, float *y);    /* 3.5 */
void rx_verf_f32(int64_t n, const float *x, float *y);     /* 4 */
void rx_vsigmoid_f32(int64_t n, const float *x, float *y); /* 3 */
void rx_vsqrt_f32(int64_t n, const float *x, float *y);    /* 0.5 */
void rx_vrsqrt_f32(int64_t n, const float *x, float *y);   /* 1.5 */
void rx_vsin_f32(int64_t n, const float *x, float *y);     /* 2 for |x| <= 2^16, else libm */
void rx_vcos_f32(int64_t n, const float *x, float *y);     /* 2 for |x| <= 2^16, else libm */
void rx_vatan_f32(int64_t n, const float *x, float *y);    /* 2 */
void rx_vgelu_f32(int64_t n, const float *x, float *y);    /* x/2 (1 + erf(x/sqrt 2)) */
void rx_vpow_f32(int64_t n, const float *x, const float *y, float *z); /* 2; where all exponents are one quarter of a whole number 2.1, below 0 3.5 */

/* One function for every other element-wise function and for float64, by number: see RxMath.
 * `y` is read by the functions of two arguments only. */
typedef enum RxMath {
  RX_MATH_EXP = 0, RX_MATH_LOG, RX_MATH_LOG2, RX_MATH_LOG10, RX_MATH_LOG1P, RX_MATH_EXPM1,
  RX_MATH_SIN, RX_MATH_COS, RX_MATH_TAN, RX_MATH_ASIN, RX_MATH_ACOS, RX_MATH_ATAN,
  RX_MATH_SINH, RX_MATH_COSH, RX_MATH_TANH, RX_MATH_ASINH, RX_MATH_ACOSH, RX_MATH_ATANH,
  RX_MATH_ERF, RX_MATH_SIGMOID, RX_MATH_SQRT, RX_MATH_RSQRT, RX_MATH_CBRT,
  RX_MATH_ROUND /* half away from zero */, RX_MATH_RINT /* half to even */,
  RX_MATH_POW, RX_MATH_ATAN2, RX_MATH_FMOD, RX_MATH_HYPOT, RX_MATH_COUNT
} RxMath;
float rx_math_f32(int32_t fn, float x, float y);
double rx_math_f64(int32_t fn, double x, double y);
void rx_vmath_f32(int32_t fn, int64_t n, const float *x, const float *y, float *z);
void rx_vmath_f64(int32_t fn, int64_t n, const double *x, const double *y, double *z);

/* ---- element-wise expressions --------------------------------------------------------- */

/* What reductions combine elements with; the last two by rx_sweep only. */
enum {
  RX_COMBINE_SUM = 0, RX_COMBINE_PRODUCT = 1, RX_COMBINE_MAX = 2, RX_COMBINE_MIN = 3, RX_COMBINE_AND = 4,
  RX_COMBINE_OR = 5
};

/* Operations of rx_strips_f32: what they do stands in src/kernels/strips/mod.rs, in this order. */
typedef struct RxStripOp {
  int32_t code;    /*  0 */
  int32_t dst;     /*  4: the temporary that is written */
  int32_t args[4]; /*  8: operands: inputs, then constants, then temporaries */
} RxStripOp;       /* 24 bytes */

/* out[i…] = the last operation's result, or that reduced over further axes. Inputs are read at the
 * sum of index times step over all axes. */
typedef struct RxStrips {
  int32_t axes, reduced;            /*  0, 4: axes of the result; axes reduced, after them */
  int32_t inputs, constants;        /*  8, 12 */
  int32_t ops, temps;               /* 16, 20 */
  int32_t combiner;                 /* 24: RX_COMBINE_* */
  int32_t reserved;                 /* 28: zero */
  const int64_t *extents;           /* 32 */
  const float *const *data;         /* 40: the inputs */
  const int32_t *kinds;             /* 48: RX_FLOAT32, …, per input, then of out; NULL: all float32 */
  const int64_t *strides;           /* 56: per input, a step for every axis */
  const float *values;              /* 64: the constants */
  const RxStripOp *program;         /* 72 */
  float *out;                       /* 80: contiguous; overlaps no input */
} RxStrips;                         /* 88 bytes */

int32_t rx_strips_f32(RxContext *ctx, const RxStrips *strips);

/* An operation of rx_sweep: what they do stands in src/kernels/sweep/op.rs, in this order. */
typedef struct RxSweepOp {
  int32_t code;     /*  0 */
  int32_t kind, to; /*  4, 8: RX_INT8, ... of the arguments and of the result */
  int32_t dst;      /* 12: the temporary that is written */
  int32_t args[4];  /* 16: operands: inputs, then constants, then temporaries; or numbers */
} RxSweepOp;        /* 32 bytes */

/* What is done along all lines of an array: sorting (stable; the first `keep` elements and their indices), the index of
 * the greatest or the least element, running sums, running products. */
enum {
  RX_LINES_SORT = 0, RX_LINES_GREATEST = 1, RX_LINES_LEAST = 2, RX_LINES_SUM = 3, RX_LINES_PRODUCT = 4
};
typedef struct RxLines {
  int64_t outer, extent, inner; /*  0..16: extents before, of and behind the axis */
  int64_t keep;                 /* 24 */
  int32_t kind, index_kind;     /* 32, 36: RX_INT8, ... of elements; RX_INT32 or RX_INT64 */
  int32_t work;                 /* 40: RX_LINES_* */
  int32_t flag;                 /* 44: ascending; the last one of equals; without the element itself */
  const void *x;                /* 48 */
  void *values, *indices;       /* 56, 64: or NULL */
} RxLines;                      /* 72 bytes */
int32_t rx_lines(RxContext *ctx, const RxLines *lines);

/* out[i, j, ...] = x[t0[i] + t1[j] + ...], with a table of offsets for each axis; `fill` where one is negative. */
typedef struct RxPick {
  int32_t axes, size;           /*  0, 4: of the result; bytes of an element: 1, 2, 4 or 8 */
  const int64_t *extents;       /*  8 */
  const int64_t *tables;        /* 16: one behind the other */
  const void *x;                /* 24 */
  uint64_t fill;                /* 32: the bits of an element */
  void *out;                    /* 40: contiguous; overlaps nothing */
} RxPick;                       /* 48 bytes */
int32_t rx_pick(RxContext *ctx, const RxPick *pick);

/* Some adjacent axes are reduced in boxes: along each of them, an index of the result has a range of the array's indices,
 * and an element is what all elements within its ranges are combined to. RX_COMBINE_SUM, RX_COMBINE_MAX or RX_COMBINE_MIN. */
typedef struct RxBoxes {
  int32_t axes, combiner;       /*  0, 4: 1 to 4 axes with ranges; how elements are combined */
  int32_t kind, reserved;       /*  8, 12: of array and result, not RX_BOOL; 0 */
  int64_t outer, inner;         /* 16, 24: elements of the axes before and behind */
  const int64_t *extents;       /* 32: of the array along the axes with ranges, then of the result */
  const int64_t *ranges;        /* 40: for each axis, for each index of the result: the first index, and that behind the last */
  const void *x;                /* 48: contiguous */
  void *out;                    /* 56: contiguous; overlaps nothing */
} RxBoxes;                      /* 64 bytes */
int32_t rx_boxes(RxContext *ctx, const RxBoxes *boxes);

/* out[b, c, a, i] = sum over k of weights[k, (b, a)] * x[q, c, r, i], where places[k, (b, a)] is (q, r) as one number, or
 * negative for nothing. */
typedef struct RxGathered {
  int32_t taps, kind;              /*  0, 4: how many are added; RX_FLOAT32, ... of out */
  int32_t from_kind, reserved;     /*  8, 12: of x; 0 */
  int64_t from_before, before;     /* 16, 24: q and b */
  int64_t channels;                /* 32: c */
  int64_t from_behind, behind;     /* 40, 48: r and a */
  int64_t inner;                   /* 56: i */
  const int64_t *places;           /* 64: [taps, before, behind] */
  const void *weights;             /* 72: the same, of float64 for float64, else of float32 */
  const void *x;                   /* 80: contiguous */
  void *out;                       /* 88: contiguous; overlaps nothing */
} RxGathered;                      /* 96 bytes */
int32_t rx_gathered(RxContext *ctx, const RxGathered *gathered);

/* As RxStrips for elements of any type. */
typedef struct RxSweep {
  int32_t axes, reduced;        /*  0, 4 */
  int32_t inputs, constants;    /*  8, 12 */
  int32_t ops, temps;           /* 16, 20 */
  int32_t combiner;             /* 24: RX_COMBINE_* */
  int32_t out_type;             /* 28: RX_INT8, ... */
  const int64_t *extents;       /* 32 */
  const void *const *data;      /* 40: the inputs; of an index its first number */
  const int32_t *kinds;         /* 48: RX_INT8, ...; -1 for an index */
  const int64_t *strides;       /* 56 */
  const uint64_t *values;       /* 64: the constants */
  const RxSweepOp *program;     /* 72 */
  void *out;                    /* 80: contiguous; overlaps no input */
} RxSweep;                      /* 88 bytes */
int32_t rx_sweep(RxContext *ctx, const RxSweep *sweep);

/* y[i] = table[x[i] ^ flip] for n bytes, with a table of 256; y may be x. */
int32_t rx_lookup_bytes(RxContext *ctx, int64_t n, const void *x, const void *table, void *y, int32_t flip);

/* ---- attention ----------------------------------------------------------------------- */

/* out = softmax(q k * scale + mask) v for each head of each batch, without the matrix of scores. A mask of bytes chooses
 * instead of being added: where it is 0 (RX_MASK_KEEP) or is not 0 (RX_MASK_REPLACE), `fill` stands for the scaled score.
 * Query i sees the keys from i + first on, before i + last. *_step goes from one batch to the next and *_head from one
 * head to the next, 0 where all read the same; *_share adjacent heads of queries share one of the keys or values. */
enum { RX_MASK_ADD = 0, RX_MASK_KEEP = 1, RX_MASK_REPLACE = 2 };
typedef struct RxAttentionF32 {
  int64_t batch, heads, rows, keys; /*   0 */
  int64_t depth, width;             /*  32: elements of a key, of a value */
  const float *q;                   /*  48: [rows, depth] per head */
  int64_t q_step, q_head, q_rs;     /*  56 */
  const float *k;                   /*  80: a matrix [depth, keys] per head */
  int64_t k_step, k_head, k_share;  /*  88 */
  int64_t k_rs, k_cs;               /* 112 */
  const float *v;                   /* 128: a matrix [keys, width] per head */
  int64_t v_step, v_head, v_share;  /* 136 */
  int64_t v_rs, v_cs;               /* 160 */
  const void *mask;                 /* 176: float32 or bytes, by mask_kind; or NULL */
  int64_t mask_step, mask_head;     /* 184: in elements of the mask */
  int64_t mask_rs, mask_cs;         /* 200: from one query and key to the next; mask_cs is 0 or 1 */
  float *out;                       /* 216: [rows, width] per head; overlaps no input */
  int64_t out_step, out_head;       /* 224 */
  int64_t out_rs;                   /* 240 */
  int64_t first, last;              /* 248: the keys that a query sees */
  float scale;                      /* 264 */
  int32_t mask_kind;                /* 268: RX_MASK_* */
  float fill;                       /* 272 */
  int32_t reserved;                 /* 276: 0 */
} RxAttentionF32;                   /* 280 bytes */

int32_t rx_attention_f32(RxContext *ctx, const RxAttentionF32 *attention);

/* ---- rows ---------------------------------------------------------------------------- */

/* Over the last axis of x[rows, cols], with `log` the logarithm; y may be x. Elements are float32, or float16 or bfloat16,
 * which become float32 before it and are rounded after it. */
int32_t rx_softmax(RxContext *ctx, int64_t rows, int64_t cols, const void *x, void *y, int32_t kind,
                   int32_t log);
/* (x - mean) / sqrt(variance + epsilon) * gamma + beta, for each row. Element i of all has the factors of channel
 * i / inner % channels. */
typedef struct RxLayerNormF32 {
  int64_t rows, cols;      /*  0 */
  int64_t channels, inner; /* 16 */
  const void *x;           /* 32: [rows, cols] */
  const void *gamma;       /* 40: [channels] or NULL */
  const void *beta;        /* 48: [channels] or NULL */
  void *y;                 /* 56: [rows, cols]; may be x */
  float epsilon;           /* 64 */
  int32_t centred;         /* 68: 0 where the mean is taken for 0 */
  int32_t kind;            /* 72: RX_FLOAT32, ... of x and y */
  int32_t factors;         /* 76: RX_FLOAT32, ... of gamma and beta */
} RxLayerNormF32;          /* 80 bytes */

int32_t rx_layer_norm_f32(RxContext *ctx, const RxLayerNormF32 *norm);

/* ---- reductions ---------------------------------------------------------------------- */

/* y[outer, inner] = op over the middle axis of x[outer, axis, inner]. Sums are pairwise: the
 * rounding error grows with log(axis). Empty: 0, NaN (mean), -inf, +inf, 1. NaN propagates
 * through max and min. */
enum { RX_SUM = 0, RX_MEAN = 1, RX_MAX = 2, RX_MIN = 3, RX_PROD = 4, RX_SUMSQ = 5 };
int32_t rx_reduce_f32(RxContext *ctx, int32_t op, int64_t outer, int64_t axis, int64_t inner,
                      const float *x, float *y);

/* ---- memory -------------------------------------------------------------------------- */

/* dst[strides] = src[strides] for every index of shape; elements of 1, 2, 4, 8 or 16 bytes;
 * source strides may be 0 (broadcast) or negative. ndim <= 16. */
int32_t rx_copy_strided(RxContext *ctx, int32_t elem_size, int32_t ndim, const int64_t *shape,
                        const void *src, const int64_t *src_strides, void *dst,
                        const int64_t *dst_strides);
/* dst = src with its axes permuted: axis i of dst is axis axes[i] of src; both compact. */
int32_t rx_transpose(RxContext *ctx, int32_t elem_size, int32_t ndim, const int64_t *src_shape,
                     const int32_t *axes, const void *src, void *dst);
void rx_fill(int32_t elem_size, int64_t n, const void *element, void *dst);
void rx_copy(int64_t bytes, const void *src, void *dst);

/* float16 and bfloat16 to and from float32, rounding to nearest even. */
void rx_vf16_to_f32(int64_t n, const uint16_t *x, float *y);
void rx_vf32_to_f16(int64_t n, const float *x, uint16_t *y);
void rx_vbf16_to_f32(int64_t n, const uint16_t *x, float *y);
void rx_vf32_to_bf16(int64_t n, const float *x, uint16_t *y);

/* Single elements, for generated code. Integer powers wrap; a negative exponent truncates toward
 * zero. */
int64_t rx_ipow(int64_t base, int64_t exponent);

#ifdef __cplusplus
}
#endif
#endif /* RELAX_KERNELS_H */
