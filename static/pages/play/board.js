// A game of Connect Four as its text of moves ("33241": columns 0 to 6, the first player begins). What is legal and who has
// won, the model's module says; this only lays the discs.

export const COLUMNS = 7;
export const ROWS = 6;

/** @typedef {"first" | "second"} Player */
/** What the module says of a position. @typedef {{move: number | null, policy: number[], value: number, legal: number[],
 *   winner: "none" | "first" | "second" | "draw", line: Array<[number, number]>}} Position */

/** @param {string} moves @returns {Player} whose turn it is */
export const playerToMove = (moves) => (moves.length % 2 === 0 ? "first" : "second");

/** @param {string} moves @returns {Player[][]} for each column its discs, from the bottom */
export function discs(moves) {
  /** @type {Player[][]} */
  const columns = Array.from({ length: COLUMNS }, () => []);
  [...moves].forEach((column, index) => columns[Number(column)]?.push(index % 2 === 0 ? "first" : "second"));
  return columns;
}

/** Before the person's last move; the game itself when there is none. @param {string} moves @param {Player} person */
export function undone(moves, person) {
  const parity = person === "first" ? 0 : 1;
  for (let length = moves.length - 1; length >= 0; length -= 1) if (length % 2 === parity) return moves.slice(0, length);
  return moves;
}

/** A column for people who do not see the board. @param {Player[]} column from the bottom @param {number} index @param {Player} person */
export function columnText(column, index, person) {
  const name = `Column ${index + 1}`;
  const top = column.at(-1);
  if (!top) return `${name}, empty`;
  const whose = top === person ? "yours" : "the model’s";
  return column.length === ROWS ? `${name}, full` : `${name}, ${column.length} disc${column.length === 1 ? "" : "s"}, the top one ${whose}`;
}

/** The end of a game for the person, or null. @param {Position} position @param {Player} person */
export function endText({ winner }, person) {
  if (winner === "none") return null;
  if (winner === "draw") return "The board is full: a draw.";
  return winner === person ? "You have four in a row: you win!" : "The model has four in a row: it wins.";
}

/** What the model thinks of a position, said to the person. @param {Position} position @param {boolean} personMoves */
export function thoughtText({ move, policy, value }, personMoves) {
  const yours = Math.round(100 * (personMoves ? value : -value)) / 100;
  const chance = move === null ? "" : ` It would play column ${move + 1} (${percent(policy[move])}).`;
  const word = yours > 0.15 ? "you are ahead" : yours < -0.15 ? "it is ahead" : "it is even";
  return `The model thinks ${word}: ${yours.toFixed(2)}, where 1 is won and -1 lost for you.${chance}`;
}

/** @param {number | undefined} share */
export const percent = (share) => `${Math.round(100 * (share ?? 0))} %`;
