// The cart and the pole of Gymnasium's CartPole-v1, in double precision like the original.
#ifndef CARTPOLE_ENVIRONMENT_H
#define CARTPOLE_ENVIRONMENT_H

#include <stdbool.h>

#include "../lib/rng.h"

enum { MOST_STEPS = 500 };

typedef struct {
    double x, x_dot;          // m, m/s
    double theta, theta_dot;  // rad from upright, rad/s
} cartpole;

cartpole cartpole_start(rng *r);  // each number uniform in [-0.05, 0.05)

// 0.02 s of Euler's method under a push to the left (action 0) or right (action 1).
void cartpole_step(cartpole *c, int action);

bool cartpole_has_fallen(const cartpole *c);

#endif
