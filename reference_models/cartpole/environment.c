#include "environment.h"

static const double GRAVITY = 9.8;
static const double POLE_MASS = 0.1, TOTAL_MASS = 0.1 + 1.0;
static const double HALF_LENGTH = 0.5, POLE_MOMENT = 0.1 * 0.5;  // pole mass times half length
static const double FORCE = 10;
static const double STEP = 0.02;
static const double MOST_X = 2.4, MOST_THETA = 12 * 2 * 3.141592653589793 / 360;

// The pole has fallen before 0.21 rad, so that few terms of the Taylor series are exact to the last place of
// a double: what is left is below 1e-20. Built from +, -, * and / alone, they are the same bits on every engine.
static double sine(double x) {
    static const double TERMS[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
    double square = x * x, sum = TERMS[0];
    for (int i = 1; i < 6; i++) sum = sum * square + TERMS[i];
    return x + x * (square * sum);
}

static double cosine(double x) {
    static const double TERMS[] = {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2};
    double square = x * x, sum = TERMS[0];
    for (int i = 1; i < 6; i++) sum = sum * square + TERMS[i];
    return 1 + square * sum;
}

cartpole cartpole_start(rng *r) {
    cartpole c;
    c.x = rng_uniform(r, 0.05f);
    c.x_dot = rng_uniform(r, 0.05f);
    c.theta = rng_uniform(r, 0.05f);
    c.theta_dot = rng_uniform(r, 0.05f);
    return c;
}

// The order of the operations is the original's, so that only sine and cosine can differ from it.
void cartpole_step(cartpole *c, int action) {
    double force = action == 1 ? FORCE : -FORCE;
    double sin_theta = sine(c->theta), cos_theta = cosine(c->theta);
    double push = (force + POLE_MOMENT * (c->theta_dot * c->theta_dot) * sin_theta) / TOTAL_MASS;
    double theta_acceleration =
        (GRAVITY * sin_theta - cos_theta * push) /
        (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos_theta * cos_theta) / TOTAL_MASS));
    double x_acceleration = push - POLE_MOMENT * theta_acceleration * cos_theta / TOTAL_MASS;
    c->x += STEP * c->x_dot;
    c->x_dot += STEP * x_acceleration;
    c->theta += STEP * c->theta_dot;
    c->theta_dot += STEP * theta_acceleration;
}

bool cartpole_has_fallen(const cartpole *c) {
    return c->x < -MOST_X || c->x > MOST_X || c->theta < -MOST_THETA || c->theta > MOST_THETA;
}
