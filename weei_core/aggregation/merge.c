// One block of a merge: sums in float64 in slot order, a method's step, results rounded to float32 once (the formulas
// are in fedavg.py, fedavgm.py and fedadam.py). WebAssembly, because it rounds every operation alike on every machine
// and lets a thread work without Python's lock; one pass over the block, because arrays between the operations cost
// more than the operations. The host is kernel.py; it reads and writes what is exported here by name.
#include <stdint.h>
#include <wasm_simd128.h>

typedef double f64x2 __attribute__((vector_size(16)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

// A row is a cache line longer than a block, so that the same place in all of them is not the same set of the cache.
enum { FLOATS = 64 * 1024, ROW = FLOATS + 16, UPDATES = 16, LANES = 8 };

#define EXPORTED(name) __attribute__((export_name(name), visibility("default"), used))

// What a call is about. `floats` is rounded up to whole vectors: what lies behind the block is stepped as well.
struct {
    uint32_t floats;
    uint32_t updates;    // in `updates`, at least one
    uint32_t continued;  // whether `sums` holds those of earlier updates
    uint32_t first, end; // of `average_only`
    uint32_t non_finite; // set when a result is NaN or infinite, also one behind the block
    double total;        // of all updates' weights
    double weights[UPDATES];
    double constants[8]; // of the method
} call;

float updates[UPDATES][ROW] __attribute__((aligned(64)));
float start[ROW] __attribute__((aligned(64)));
float state[2][ROW] __attribute__((aligned(64)));
float weights[ROW] __attribute__((aligned(64)));
double sums[FLOATS] __attribute__((aligned(64)));

EXPORTED("call") void *call_address(void) { return &call; }
EXPORTED("updates") void *updates_address(void) { return updates; }
EXPORTED("start") void *start_address(void) { return start; }
EXPORTED("state") void *state_address(void) { return state; }
EXPORTED("weights") void *weights_address(void) { return weights; }

// A test compares these with what the host takes them to be.
EXPORTED("row_floats") uint32_t row_floats(void) { return ROW; }
EXPORTED("update_rows") uint32_t update_rows(void) { return UPDATES; }
EXPORTED("call_bytes") uint32_t call_bytes(void) { return sizeof call; }

// Eight floats as doubles: enough sums at once that none waits for the one before.
typedef struct {
    f64x2 part[LANES / 2];
} Doubles;

#define EACH(k) for (int k = 0; k < LANES / 2; k++)

static inline f64x2 splat(double x) { return (f64x2){x, x}; }
static inline f64x2 promoted(f32x4 v) { return (f64x2)wasm_f64x2_promote_low_f32x4((v128_t)v); }
static inline f32x4 demoted(f64x2 v) { return (f32x4)wasm_f32x4_demote_f64x2_zero((v128_t)v); }

static inline Doubles load(const float *at) {
    Doubles v;
    for (int k = 0; k < LANES / 2; k += 2) {
        f32x4 values = *(const f32x4 *)(at + 2 * k);
        v.part[k] = promoted(values);
        v.part[k + 1] = promoted(__builtin_shufflevector(values, values, 2, 3, 2, 3));
    }
    return v;
}

// Rounds; whether one of them is not finite goes into `bad`.
static inline void save(float *at, Doubles v, i32x4 *bad) {
    for (int k = 0; k < LANES / 2; k += 2) {
        f32x4 values = __builtin_shufflevector(demoted(v.part[k]), demoted(v.part[k + 1]), 0, 1, 4, 5);
        *bad |= values - values != (f32x4){0};
        *(f32x4 *)(at + 2 * k) = values;
    }
}

// The sum does not begin with 0, which would make 0 of -0.
static inline Doubles sums_at(uint32_t i, uint32_t count, uint32_t continued) {
    uint32_t u = 0;
    Doubles sum;
    if (continued) {
        EACH(k) sum.part[k] = *(f64x2 *)&sums[i + 2 * k];
    } else {
        Doubles values = load(&updates[u][i]);
        f64x2 weight = splat(call.weights[u++]);
        EACH(k) sum.part[k] = values.part[k] * weight;
    }
    for (; u < count; u++) {
        Doubles values = load(&updates[u][i]);
        f64x2 weight = splat(call.weights[u]);
        EACH(k) sum.part[k] += values.part[k] * weight;
    }
    return sum;
}

// More updates than there is room for: all but the last of them come here.
EXPORTED("accumulate") void accumulate(void) {
    uint32_t count = call.updates, continued = call.continued, floats = call.floats;
    for (uint32_t i = 0; i < floats; i += LANES) {
        Doubles sum = sums_at(i, count, continued);
        EACH(k) *(f64x2 *)&sums[i + 2 * k] = sum.part[k];
    }
}

// From the start, the average and the state, which it replaces, to the weights.
typedef f64x2 Step(f64x2 start, f64x2 average, f64x2 *first, f64x2 *second);

static inline __attribute__((always_inline)) void step_all(Step step, int vectors) {
    i32x4 bad = {0};
    uint32_t count = call.updates, continued = call.continued, floats = call.floats;
    f64x2 total = splat(call.total);
    for (uint32_t i = 0; i < floats; i += LANES) {
        Doubles result = sums_at(i, count, continued);  // and then their average, and then the weights
        EACH(k) result.part[k] /= total;
        if (vectors) {
            Doubles before = load(&start[i]), first = load(&state[0][i]), second = {0};
            if (vectors > 1) second = load(&state[1][i]);
            EACH(k) {
                f64x2 average = promoted(demoted(result.part[k]));
                result.part[k] = step(before.part[k], average, &first.part[k], &second.part[k]);
            }
            save(&state[0][i], first, &bad);
            if (vectors > 1) save(&state[1][i], second, &bad);
        }
        save(&weights[i], result, &bad);
    }
    call.non_finite = wasm_v128_any_true((v128_t)bad);
}

EXPORTED("fedavg") void fedavg(void) { step_all(0, 0); }

static inline f64x2 momentum_step(f64x2 start, f64x2 average, f64x2 *velocity, f64x2 *none) {
    (void)none;
    f64x2 momentum = splat(call.constants[0]), rate = splat(call.constants[1]);
    *velocity = *velocity * momentum + (average - start);
    return *velocity * rate + start;
}

EXPORTED("fedavgm") void fedavgm(void) { step_all(momentum_step, 1); }

static inline f64x2 adam_step(f64x2 start, f64x2 average, f64x2 *first, f64x2 *second) {
    const double *c = call.constants;
    f64x2 change = average - start;
    *first = *first * splat(c[0]) + change * splat(c[1]);
    *second = *second * splat(c[2]) + change * change * splat(c[3]);
    f64x2 spread = (f64x2)wasm_f64x2_sqrt((v128_t)(*second / splat(c[5]))) + splat(c[7]);
    return *first / splat(c[4]) * splat(c[6]) / spread + start;
}

EXPORTED("fedadam") void fedadam(void) { step_all(adam_step, 2); }

// After a step: these floats are the average, and keep no state.
EXPORTED("average_only") void average_only(void) {
    for (uint32_t i = call.first; i < call.end; i++) {
        uint32_t u = 0;
        double sum = call.continued ? sums[i] : (double)updates[u++][i] * call.weights[0];
        for (; u < call.updates; u++) sum += (double)updates[u][i] * call.weights[u];
        weights[i] = (float)(sum / call.total);
        state[0][i] = state[1][i] = 0;
    }
}
