// The rules of Connect Four on bitboards: 7 columns of 6 rows, the first player moves first.
#ifndef CONNECT4_GAME_H
#define CONNECT4_GAME_H

#include <stdbool.h>
#include <stdint.h>

enum { COLUMNS = 7, ROWS = 6, CELLS = COLUMNS * ROWS, LINE = 4 };

// Cell (column, row) is bit 7 column + row, row 0 at the bottom. The seventh bit of each column stays 0, so that
// no shift joins the top of one column to the bottom of the next.
typedef struct {
    uint64_t stones[2];  // of the first and of the second player
    int count;           // moves made; count % 2 is the player to move
} board;

static inline uint64_t cell_bit(int column, int row) { return (uint64_t)1 << (column * (ROWS + 1) + row); }

static inline uint64_t all_stones(const board *b) { return b->stones[0] | b->stones[1]; }
static inline uint64_t stones_of_mover(const board *b) { return b->stones[b->count % 2]; }
static inline uint64_t stones_of_other(const board *b) { return b->stones[(b->count + 1) % 2]; }

// Whether the column has room; asked only while the game is on.
static inline bool game_is_legal(const board *b, int column) {
    return (all_stones(b) & cell_bit(column, ROWS - 1)) == 0;
}

board game_after(const board *b, int column);    // a legal move
uint64_t game_playable(uint64_t all);            // the lowest empty cell of each column that has one
bool game_was_won(const board *b);               // by the player who moved last

static inline bool game_is_full(const board *b) { return b->count == CELLS; }
static inline bool game_is_over(const board *b) { return game_was_won(b) || game_is_full(b); }

// For `player`, 0 or 1, when the game is over: 1, 0 or -1.
static inline int game_result(const board *b, int player) {
    if (!game_was_won(b)) return 0;
    return (b->count + 1) % 2 == player ? 1 : -1;
}

typedef struct {
    int column, row;
} cell;

// The first line of four by direction (across, up, rising, falling), column and row; false when there is none.
bool game_find_line(uint64_t stones, cell line[LINE]);

#endif
