// Answers each line "moves depth" of stdin with the columns that alpha-beta holds for the best. tests/models compares
// them with plain minimax.
#include "../../reference_models/connect4/alphabeta.h"
#include "check.h"

int main(void) {
    char moves[CELLS + 1];
    int depth, read;
    while ((read = scanf("%42s %d", moves, &depth)) == 2) {
        board b = {0};
        for (const char *move = moves; *move != '\0'; move++) b = game_after(&b, *move - '0');
        int columns[COLUMNS], count = alphabeta_best(&b, depth, columns);
        for (int i = 0; i < count; i++) printf("%d", columns[i]);
        printf("\n");
    }
    CHECK(read == EOF, "a line of stdin is not moves and a depth");
    return 0;
}
