#include "game.h"

static const uint64_t BOTTOM = 0x40810204081u;  // row 0 of every column
static const uint64_t ALL = (0x40810204081u << ROWS) - 0x40810204081u;

// Adding 1 at the bottom of a column carries through its stones to the lowest empty cell.
uint64_t game_playable(uint64_t all) { return (all + BOTTOM) & ALL; }

board game_after(const board *b, int column) {
    uint64_t bottom = cell_bit(column, 0), whole_column = (bottom << ROWS) - bottom;
    board next = *b;
    next.stones[b->count % 2] |= (all_stones(b) + bottom) & whole_column;
    next.count++;
    return next;
}

// How many bits apart the cells of a line are: across, up, rising, falling.
static const int STEPS[] = {ROWS + 1, 1, ROWS + 2, ROWS};

// The first cell of every line in one direction.
static uint64_t lines_along(uint64_t stones, int step) {
    uint64_t pairs = stones & stones >> step;
    return pairs & pairs >> 2 * step;
}

bool game_was_won(const board *b) {
    uint64_t stones = stones_of_other(b), lines = 0;
    for (int i = 0; i < 4; i++) lines |= lines_along(stones, STEPS[i]);
    return lines != 0;
}

bool game_find_line(uint64_t stones, cell line[LINE]) {
    for (int i = 0; i < 4; i++) {
        uint64_t lines = lines_along(stones, STEPS[i]);
        if (lines == 0) continue;
        int bit = __builtin_ctzll(lines);
        for (int n = 0; n < LINE; n++, bit += STEPS[i]) line[n] = (cell){bit / (ROWS + 1), bit % (ROWS + 1)};
        return true;
    }
    return false;
}
