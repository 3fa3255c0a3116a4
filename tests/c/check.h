// A failed check prints its place and ends the program; pytest shows the line.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)                                          \
    do {                                                               \
        if (!(condition)) {                                            \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);     \
            printf(__VA_ARGS__);                                       \
            printf("\n");                                              \
            exit(1);                                                   \
        }                                                              \
    } while (0)

#endif
