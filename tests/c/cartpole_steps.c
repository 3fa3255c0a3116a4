// Answers each line "x x_dot theta theta_dot action" of stdin with the state one step later and whether the pole has
// fallen. tests/models compares that with Gymnasium's environment. Numbers are hexadecimal: nothing is rounded.
#include "../../reference_models/cartpole/environment.h"
#include "check.h"

int main(void) {
    cartpole c;
    int action, read;
    while ((read = scanf("%la %la %la %la %d", &c.x, &c.x_dot, &c.theta, &c.theta_dot, &action)) == 5) {
        cartpole_step(&c, action);
        printf("%a %a %a %a %d\n", c.x, c.x_dot, c.theta, c.theta_dot, cartpole_has_fallen(&c));
    }
    CHECK(read == EOF, "a line of stdin has no five numbers");
    return 0;
}
