#include "episode.h"

static int by_probability(float preference, rng *r) {
    float drawn = (float)(uint32_t)(rng_next(r) >> 40) * 0x1p-24f;  // 24 bits, exact in a float, below 1
    return drawn < policy_probability(preference);
}

static void play(episode *e, const policy *p, uint64_t seed, uint64_t unit, bool greedily) {
    rng r = rng_start(seed, unit);
    cartpole c = cartpole_start(&r);
    e->steps = 0;
    do {
        float *seen = e->observations[e->steps], hidden[HIDDEN];
        seen[0] = (float)c.x;
        seen[1] = (float)c.x_dot;
        seen[2] = (float)c.theta;
        seen[3] = (float)c.theta_dot;
        float preference = policy_preference(p, seen, hidden);
        int action = greedily ? preference > 0 : by_probability(preference, &r);
        e->actions[e->steps++] = (uint8_t)action;
        cartpole_step(&c, action);
        e->fell = cartpole_has_fallen(&c);
    } while (!e->fell && e->steps < MOST_STEPS);
}

void episode_play(episode *e, const policy *p, uint64_t seed, uint64_t unit) { play(e, p, seed, unit, false); }

void episode_play_greedily(episode *e, const policy *p, uint64_t seed, uint64_t unit) {
    play(e, p, seed, unit, true);
}
