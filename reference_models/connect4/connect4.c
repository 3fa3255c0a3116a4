// The model `connect-four`: learns the game by playing against earlier versions of itself. The operations of Weei WASM
// ABI 1.
#include "../lib/weei.h"
#include "learner.h"
#include "match.h"

#define DEFAULT_LEARNING_RATE 0.002

enum {
    MOST_UNITS = 4096,
    TURNS_PER_STEP = 6,  // about 40 moves
    MOST_WEIGHT = 1000000,
};

static parameters *weights;   // the host's buffers; NULL = none
static parameters *opponent;
static parameters initial_weights;
static learner learning;

WEEI_OPERATION(getModelInfo) {
    (void)request;
    json_value(result,
               "{\"id\":\"connect-four\",\"version\":\"1.0.0\",\"name\":\"Connect Four (self-play)\","
               "\"abiVersion\":1,\"weightFormat\":\"float32-le\",\"maxWorkers\":4,\"dataFormats\":[],"
               "\"metrics\":[{\"id\":\"winRate\",\"label\":\"Score against the earlier version\","
               "\"direction\":\"maximize\"},"
               "{\"id\":\"loss\",\"label\":\"Squared error of the values\",\"direction\":\"minimize\"},"
               "{\"id\":\"winsRandom\",\"label\":\"Score against random moves\",\"direction\":\"maximize\"},"
               "{\"id\":\"winsAlphaBeta\",\"label\":\"Score against alpha-beta, 4 moves deep\","
               "\"direction\":\"maximize\"}],"
               "\"capabilities\":{\"evaluation\":true,\"inference\":true},"
               "\"workSource\":{\"kind\":\"experience\",\"inputs\":\"none\","
               "\"unit\":{\"id\":\"game\",\"label\":\"Games\"},"
               "\"unitsPerAssignment\":{\"default\":64,\"minimum\":2,\"maximum\":4096},\"evaluationUnits\":400},"
               "\"auxiliaryWeights\":[{\"id\":\"opponent\",\"role\":\"opponent\",\"bytes\":30980,"
               "\"source\":{\"kind\":\"checkpoint\",\"roundsAgo\":3}}],"
               "\"inference\":{\"view\":\"connect-four\",\"inputs\":[{\"id\":\"moves\","
               "\"label\":\"Columns played so far, 0 to 6, without spaces\",\"type\":\"text\"}],"
               "\"outputs\":[{\"id\":\"move\",\"label\":\"Column to play\",\"type\":\"integer\"},"
               "{\"id\":\"policy\",\"label\":\"Chance of each column\",\"type\":\"numbers\",\"count\":7},"
               "{\"id\":\"value\",\"label\":\"Expected result for the player to move, -1 to 1\",\"type\":\"number\"},"
               "{\"id\":\"legal\",\"label\":\"Columns with room\",\"type\":\"numbers\"},"
               "{\"id\":\"winner\",\"label\":\"Winner\",\"type\":\"text\"},"
               "{\"id\":\"line\",\"label\":\"Column and row of the winning four\",\"type\":\"rows\"}]}}");
    return true;
}
_Static_assert(WEIGHT_BYTES == 30980 && MOST_UNITS == 4096 && ALPHABETA_DEPTH == 4, "ModelInfo states these");

WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    network_initialize(&initial_weights, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(&initial_weights));
    json_key(result, "bytes");
    json_integer(result, WEIGHT_BYTES);
    json_close(result, '}');
    return true;
}

// Within these limits no sum of the network can overflow. NaN is not within them.
static bool all_usable(const parameters *p) {
    const float *values = (const float *)p;
    for (int i = 0; i < WEIGHTS; i++)
        if (!(values[i] >= -MOST_WEIGHT && values[i] <= MOST_WEIGHT)) return false;
    return true;
}

static bool read_weights(json request, parameters **loaded) {
    weei_buffer buffer;
    if (!weei_read_buffer(request, "weights", &buffer)) return false;
    if (buffer.bytes != WEIGHT_BYTES)
        return weei_fail("weights has %g bytes, this model has %g", (double)buffer.bytes, (double)WEIGHT_BYTES);
    *loaded = at_address(buffer.address);
    return all_usable(*loaded) ||
           weei_fail("weights holds a value that is not finite or beyond %g", (double)MOST_WEIGHT);
}

static void replace(parameters **held, parameters *loaded) {
    if (*held != NULL && *held != loaded) weei_free(address_of(*held), WEIGHT_BYTES);
    *held = loaded;
}

// The host's buffer becomes the weights: training works in it and returns it, so nothing is copied.
WEEI_OPERATION(loadModel) {
    parameters *loaded;
    if (!read_weights(request, &loaded)) return false;
    replace(&weights, loaded);
    replace(&opponent, NULL);
    learner_start(&learning);
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

static bool model_is_loaded(void) {
    return weights != NULL || weei_fail("no weights are loaded: call loadModel first");
}

WEEI_OPERATION(loadAuxiliary) {
    json id;
    parameters *loaded;
    if (!model_is_loaded()) return false;
    if (!json_member(request, "id", &id) || !json_is_text(id, "opponent")) return weei_fail("id is not opponent");
    if (!read_weights(request, &loaded)) return false;
    replace(&opponent, loaded);
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

typedef struct {
    uint32_t total, played, points;  // games, and half points of the learner
    uint64_t steps;
    error_sum errors;  // while the steps were taken
} run;

static void write_metrics(json_writer *w, const run *r) {
    json_key(w, "winRate");
    json_number(w, (double)r->points / (2.0 * r->played));
    json_key(w, "loss");
    json_number(w, r->errors.squares / (double)r->errors.moves);
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(const run *r) {
    replace(&weights, NULL);
    return weei_fail("training diverged after %g games: a weight is not finite or beyond %g; lower "
                     "settings.learningRate", (double)r->played, (double)MOST_WEIGHT);
}

// Turns in the order of `order`, a few at a time, shuffled before each pass.
static bool learn(run *r, const turn *turns, uint32_t *order, uint32_t count, const weei_settings *settings,
                  rng *random) {
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t epoch = 0; epoch < settings->local_epochs; epoch++) {
        rng_shuffle(random, order, count);
        for (uint32_t at = 0; at < count; at += TURNS_PER_STEP) {
            uint32_t left = count - at, taken = left < TURNS_PER_STEP ? left : TURNS_PER_STEP;
            learner_step(&learning, weights, turns, order + at, taken, (float)settings->learning_rate, random,
                         &r->errors);
            r->steps += 1;
            if (!all_usable(weights)) return give_up_weights(r);
        }
    }
    return true;
}

// Plays `games` games with the weights as they stand, then learns from all of them.
static bool train_batch(run *r, turn *turns, uint32_t *order, uint32_t games, const weei_experience *work,
                        const weei_settings *settings) {
    uint64_t first = work->unit_start + r->played;
    rng random = rng_start(work->seed, ~first);  // a stream that no game has
    uint32_t count = 0;
    for (uint32_t i = 0; i < games; i++) {
        outcome o = selfplay_game(turns + count, weights, opponent, work->seed, first + i);
        count += (uint32_t)o.turns;
        r->points += (uint32_t)(1 + o.result);
    }
    r->played += games;
    if (!learn(r, turns, order, count, settings, &random)) return false;
    write_metrics(weei_begin_progress(r->played, r->total, r->steps), r);
    weei_send_progress();
    return true;
}

// `turns` and `order` have room for a batch of `most` games.
static bool train(turn *turns, uint32_t *order, uint32_t most, const weei_experience *work,
                  const weei_settings *settings, json_writer *result) {
    run r = {.total = work->unit_count};
    while (r.played < r.total) {
        uint32_t left = r.total - r.played, games = left < most ? left : most;
        if (!train_batch(&r, turns, order, games, work, settings)) return false;
    }

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, WEIGHT_BYTES);
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &r);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r.played);
    json_key(result, "uniqueExamples");
    json_integer(result, r.played);
    json_key(result, "optimizerSteps");
    json_integer(result, r.steps);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    weei_settings settings = {.learning_rate = DEFAULT_LEARNING_RATE};
    weei_experience work;
    uint64_t round;
    if (!model_is_loaded()) return false;
    if (opponent == NULL) return weei_fail("no opponent is loaded: call loadAuxiliary first");
    if (!weei_read_experience(request, MOST_UNITS, &work) || !weei_read_settings(request, &settings)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;

    uint32_t most = work.unit_count < settings.batch_size ? work.unit_count : settings.batch_size;
    uint32_t turn_bytes = most * CELLS * (uint32_t)sizeof(turn), bytes = turn_bytes + most * CELLS * 4;
    uint32_t block = weei_alloc(bytes);
    if (block == 0) return weei_fail("out of memory: %g games need %g bytes", (double)most, (double)bytes);
    bool done = train(at_address(block), at_address(block + turn_bytes), most, &work, &settings, result);
    weei_free(block, bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    static const char *const NAMES[RIVALS] = {"winsRandom", "winsAlphaBeta"};
    uint32_t games[RIVALS] = {0}, points[RIVALS] = {0};
    weei_experience work;
    if (!model_is_loaded() || !weei_read_experience(request, MOST_UNITS, &work)) return false;
    for (uint64_t number = work.unit_start; number < work.unit_start + work.unit_count; number++) {
        points[match_rival(number)] += (uint32_t)match_points(weights, work.seed, number);
        games[match_rival(number)] += 1;
    }
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    for (int rival = 0; rival < RIVALS; rival++) {
        if (games[rival] == 0) continue;
        json_key(result, NAMES[rival]);
        json_number(result, points[rival] / (2.0 * games[rival]));
    }
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, work.unit_count);
    json_close(result, '}');
    return true;
}

// The board after `input.moves`, a text of columns. Escapes are not understood: no digit needs one.
static bool read_board(json request, board *b) {
    json input, moves;
    if (!weei_object(request, "input", &input)) return false;
    if (!json_member(input, "moves", &moves) || moves.text[0] != '"') return weei_fail("input.moves is not a text");
    *b = (board){0};
    for (uint32_t i = 1; i + 1 < moves.bytes; i++) {
        int column = moves.text[i] - '0';
        if (column < 0 || column >= COLUMNS)
            return weei_fail("input.moves has at place %g something else than a column, allowed: 0 to 6", (double)i);
        if (game_is_over(b))
            return weei_fail("input.moves goes on after move %g, which ended the game", (double)(i - 1));
        if (!game_is_legal(b, column)) return weei_fail("input.moves has move %g in a full column", (double)i);
        *b = game_after(b, column);
    }
    return true;
}

static void write_end(json_writer *w, const board *b) {
    static const char *const WINNERS[] = {"second", "draw", "first"};
    cell line[LINE];
    json_key(w, "winner");
    json_string(w, game_is_over(b) ? WINNERS[1 + game_result(b, 0)] : "none");
    json_key(w, "line");
    json_open(w, '[');
    if (game_find_line(stones_of_other(b), line))
        for (int i = 0; i < LINE; i++) {
            json_open(w, '[');
            json_integer(w, (uint64_t)line[i].column);
            json_integer(w, (uint64_t)line[i].row);
            json_close(w, ']');
        }
    json_close(w, ']');
}

WEEI_OPERATION(predict) {
    board b;
    float values[COLUMNS], policy[COLUMNS] = {0};
    if (!model_is_loaded() || !read_board(request, &b)) return false;
    bool over = game_is_over(&b);
    if (!over) {
        player_values(weights, &b, values);
        player_policy(values, policy);
    }
    json_open(result, '{');
    json_key(result, "output");
    json_open(result, '{');
    json_key(result, "move");
    if (over) json_value(result, "null");
    else json_integer(result, (uint64_t)player_best(values));
    json_key(result, "policy");
    json_open(result, '[');
    for (int column = 0; column < COLUMNS; column++) json_number(result, policy[column]);
    json_close(result, ']');
    json_key(result, "value");
    json_number(result, over ? game_result(&b, b.count % 2) : values[player_best(values)]);
    json_key(result, "legal");
    json_open(result, '[');
    for (int column = 0; column < COLUMNS && !over; column++)
        if (game_is_legal(&b, column)) json_integer(result, (uint64_t)column);
    json_close(result, ']');
    write_end(result, &b);
    json_close(result, '}');
    json_close(result, '}');
    return true;
}
