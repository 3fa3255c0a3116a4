#include "model.h"

#include "../lib/functions.h"

float *model_weights;
static float *initial;  // what createInitialWeights returned last; NULL = nothing

enum { MOST_CONTEXT = 16384, MOST_WIDTH = 65536, MOST_LAYERS = 256, MOST_VOCABULARY = 65536 };

static bool read_size(const config *c, uint32_t index, const char *name, uint32_t minimum, uint32_t maximum, int *out) {
    uint32_t value;
    if (!config_integer(c, index, name, minimum, maximum, &value)) return false;
    *out = (int)value;
    return true;
}

static bool read_sizes(const config *c, sizes *s) {
    return read_size(c, 0, "vocabulary size", 2, MOST_VOCABULARY, &s->vocabulary) &&
           read_size(c, 1, "context", 1, MOST_CONTEXT, &s->context) &&
           read_size(c, 2, "layers", 1, MOST_LAYERS, &s->layers) &&
           read_size(c, 3, "heads", 1, MOST_WIDTH, &s->heads) &&
           read_size(c, 4, "width", 1, MOST_WIDTH, &s->width) &&
           read_size(c, 5, "hidden width", 1, 4 * MOST_WIDTH, &s->hidden);
}

static bool read_defaults(const config *c, model *m) {
    uint32_t optimizer;
    double end_token;
    if (!config_number(c, 6, "learning rate", 1e-9, 100, &m->learning_rate)) return false;
    if (!config_number(c, 7, "weight decay", 0, 100, &m->weight_decay)) return false;
    if (!config_number(c, 8, "gradient clip norm", 0, 1e9, &m->clip)) return false;
    if (!config_integer(c, 9, "optimizer", 0, 1, &optimizer)) return false;
    if (!config_number(c, 10, "beta1", 0, 0.9999999, &m->beta1)) return false;
    if (!config_number(c, 11, "beta2", 0, 0.9999999, &m->beta2)) return false;
    if (!config_number(c, 12, "epsilon", 1e-15, 1, &m->epsilon)) return false;
    if (!config_number(c, 13, "end token", -1, m->s.vocabulary - 1.0, &end_token)) return false;
    m->adamw = optimizer == 1;
    m->end_token = (int64_t)end_token;
    return true;
}

bool model_open(model *m, uint32_t kind) {
    if (!config_load(&m->source, kind)) return false;
    if (!read_sizes(&m->source, &m->s) || !read_defaults(&m->source, m)) return false;
    if (m->s.width % m->s.heads != 0)
        return weei_fail("The configuration's width is %g, allowed: multiples of %g heads.", (double)m->s.width,
                         (double)m->s.heads);
    uint64_t parameters = network_parameters(&m->s);
    m->parameters = (uint32_t)parameters;
    return parameters < UINT32_MAX / sizeof(float) ||
           weei_fail("The configuration has %g parameters, more than memory can hold.", (double)parameters);
}

bool model_open_loaded(model *m, uint32_t kind) {
    return model_open(m, kind) && (model_weights != NULL || weei_fail("no weights are loaded: call loadModel first"));
}

void release(void *block, uint32_t bytes) {
    if (block != NULL) weei_free(address_of(block), bytes);
}

void *allocate(uint64_t bytes, const char *what) {
    uint32_t address = bytes > UINT32_MAX ? 0 : weei_alloc((uint32_t)bytes);
    if (address == 0) weei_fail("out of memory: %s needs %g bytes", what, (double)bytes);
    return address == 0 ? NULL : at_address(address);
}

bool all_finite(const float *block, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!is_finite(block[i])) return false;
    return true;
}

bool model_create(const model *m, json request, json_writer *result) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    if (initial == NULL) initial = allocate(weight_bytes(m), "a set of weights");
    if (initial == NULL) return false;
    network_initialize(&m->s, initial, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(initial));
    json_key(result, "bytes");
    json_integer(result, weight_bytes(m));
    json_close(result, '}');
    return true;
}

bool model_read_weights(const model *m, json request, float **loaded) {
    weei_buffer buffer;
    if (!weei_read_buffer(request, "weights", &buffer)) return false;
    if (buffer.bytes != weight_bytes(m))
        return weei_fail("weights has %g bytes, this model has %g", (double)buffer.bytes, (double)weight_bytes(m));
    *loaded = at_address(buffer.address);
    return all_finite(*loaded, m->parameters) || weei_fail("weights holds a value that is not finite");
}

bool model_load(const model *m, json request, json_writer *result) {
    float *loaded;
    if (!model_read_weights(m, request, &loaded)) return false;
    if (model_weights != loaded) release(model_weights, weight_bytes(m));
    if (initial != loaded) release(initial, weight_bytes(m));
    initial = NULL;
    model_weights = loaded;
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

void model_give_up_weights(const model *m) {
    release(model_weights, weight_bytes(m));
    model_weights = NULL;
}

step_settings model_step(const model *m, double learning_rate) {
    return (step_settings){learning_rate, m->weight_decay, m->clip, adamw_start(m->beta1, m->beta2, m->epsilon)};
}
