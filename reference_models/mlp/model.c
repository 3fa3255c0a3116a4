#include "model.h"

#include "../lib/functions.h"

// Order of the values (weei_core/generator/architectures.py).
enum {
    INPUTS,
    OUTPUTS,
    TASK,
    HIDDEN_LAYERS,
    ACTIVATION,
    LEARNING_RATE,
    WEIGHT_DECAY,
    CLIP_NORM,
    OPTIMIZER,
    BETA1,
    BETA2,
    EPSILON,
    INPUT_KIND,
    HIDDEN_WIDTHS,
};

static bool read_shape(const config *c, model *m) {
    uint32_t hidden, task, kind;
    if (!config_integer(c, INPUTS, "inputs", 1, MOST_WIDTH, &m->inputs)) return false;
    if (!config_integer(c, OUTPUTS, "outputs", 1, MOST_OUTPUTS, &m->outputs)) return false;
    if (!config_integer(c, TASK, "task", 0, 1, &task)) return false;
    if (!config_integer(c, HIDDEN_LAYERS, "number of hidden layers", 0, MOST_HIDDEN, &hidden)) return false;
    if (!config_integer(c, ACTIVATION, "activation", RELU, TANH, &m->activation)) return false;
    if (!config_integer(c, INPUT_KIND, "input kind", 0, 1, &kind)) return false;
    m->regression = task == 1;
    m->bytes = kind == 1;
    m->layers = hidden + 1;
    m->width[0] = m->inputs;
    m->width[m->layers] = m->outputs;
    for (uint32_t i = 0; i < hidden; i++)
        if (!config_integer(c, HIDDEN_WIDTHS + i, "hidden width", 1, MOST_WIDTH, &m->width[i + 1])) return false;

    uint64_t weights = 0;
    for (uint32_t i = 0; i < m->layers; i++) weights += (uint64_t)m->width[i] * m->width[i + 1] + m->width[i + 1];
    m->weights = (uint32_t)weights;
    return weights <= UINT32_MAX / sizeof(float) ||
           weei_fail("The configuration's network has %g weights, more than a module can address.", (double)weights);
}

static bool read_training(const config *c, model *m) {
    return config_number(c, LEARNING_RATE, "learning rate", 1e-9, 100, &m->learning_rate) &&
           config_number(c, WEIGHT_DECAY, "weight decay", 0, 10, &m->weight_decay) &&
           config_number(c, CLIP_NORM, "clip norm", 0, 1e6, &m->clip_norm) &&
           config_integer(c, OPTIMIZER, "optimizer", 0, 1, &m->optimizer) &&
           config_number(c, BETA1, "beta1", 0, 0.9999, &m->beta1) &&
           config_number(c, BETA2, "beta2", 0, 0.999999, &m->beta2) &&
           config_number(c, EPSILON, "epsilon", 1e-12, 1, &m->epsilon);
}

// Steps over `bytes` bytes of the vocabulary; NULL with the error set when it ends before.
static const uint8_t *take(const config *c, uint64_t *at, uint64_t bytes) {
    const uint8_t *from = c->vocab + *at;
    *at += bytes;
    if (*at <= c->vocab_bytes) return from;
    weei_fail("The configuration's names and statistics end at byte %g, needed: %g.", (double)c->vocab_bytes,
              (double)*at);
    return NULL;
}

static bool read_names(const config *c, uint64_t *at, model *m) {
    const uint8_t *word = take(c, at, 4);
    if (word == NULL) return false;
    if (u32_at(word) != m->outputs)
        return weei_fail("The configuration has %g class names, and %g outputs.", (double)u32_at(word),
                         (double)m->outputs);
    m->names = c->vocab + *at;
    for (uint32_t i = 0; i < m->outputs; i++) {
        if ((word = take(c, at, 4)) == NULL) return false;
        uint32_t bytes = u32_at(word);
        if (bytes < 1 || bytes > MOST_NAME_BYTES)
            return weei_fail("The configuration's class %g has a name of %g bytes, allowed: 1 to %g.", (double)i,
                             (double)bytes, (double)MOST_NAME_BYTES);
        const uint8_t *name = take(c, at, bytes);
        if (name == NULL) return false;
        for (uint32_t b = 0; b < bytes; b++)
            if (name[b] < ' ') return weei_fail("The name of class %g has a control character.", (double)i);
        m->names_bytes += bytes;
    }
    return true;
}

static const uint8_t *read_statistics(const config *c, uint64_t *at, uint32_t columns) {
    const uint8_t *statistics = take(c, at, (uint64_t)columns * STATISTIC_BYTES);
    if (statistics == NULL) return NULL;
    for (uint32_t i = 0; i < columns; i++) {
        float mean = statistic_mean(statistics, i), scale = statistic_scale(statistics, i);
        if (is_finite(mean) && is_finite(scale) && scale > 0) continue;
        weei_fail("The configuration's statistics of column %g are not a mean and a positive scale.", (double)i);
        return NULL;
    }
    return statistics;
}

static bool read_vocabulary(const config *c, model *m) {
    uint64_t at = 0;
    if (!m->regression && !read_names(c, &at, m)) return false;
    if (!m->bytes && (m->input_statistics = read_statistics(c, &at, m->inputs)) == NULL) return false;
    if (m->regression && (m->output_statistics = read_statistics(c, &at, m->outputs)) == NULL) return false;
    return at == c->vocab_bytes || weei_fail("The configuration's names and statistics have %g bytes, needed: %g.",
                                             (double)c->vocab_bytes, (double)at);
}

const model *model_open(void) {
    static model opened;
    static bool is_open;
    if (is_open) return &opened;
    opened = (model){0};
    config *c = &opened.configuration;
    is_open = config_load(c, CONFIG_MLP) && read_shape(c, &opened) && read_training(c, &opened) &&
              read_vocabulary(c, &opened);
    return is_open ? &opened : NULL;
}

const uint8_t *model_name(const uint8_t *at, char name[MOST_NAME_BYTES + 1]) {
    uint32_t bytes = u32_at(at);
    for (uint32_t i = 0; i < bytes; i++) name[i] = (char)at[4 + i];
    name[bytes] = '\0';
    return at + 4 + bytes;
}
