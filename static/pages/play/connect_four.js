// A game against a checkpoint, by mouse, touch and keyboard. The rules and the answers are the module's own.
import { byId, setText, show, showText } from "../dom.js";
import { COLUMNS, columnText, discs, endText, percent, playerToMove, ROWS, thoughtText, undone } from "./board.js";

/** @typedef {import("./board.js").Player} Player */
/** @typedef {import("./board.js").Position} Position */

export class ConnectFourView {
  #asking;
  #board = byId("four-board");
  #moves = "";
  /** @type {Player} */ #person = "first";
  /** What the module says of #moves; null while it is asked. @type {Position | null} */ #position = null;
  #turn = 0;
  #thinks = false;
  /** What happened since the person's last turn, in words. @type {string[]} */ #said = [];

  /** @param {import("./page.js").Asking} asking */
  constructor(asking) {
    this.#asking = asking;
    this.#board.append(...Array.from({ length: COLUMNS }, (_, column) => this.#columnButton(column)));
    byId("four-new").addEventListener("click", () => this.#newGame());
    byId("four-undo").addEventListener("click", () => this.#undo());
    byId("four-retry").addEventListener("click", () => void this.#go());
    byId("four-hint").addEventListener("click", () => {
      this.#thinks = !this.#thinks;
      byId("four-hint").setAttribute("aria-pressed", String(this.#thinks));
      this.#render();
    });
    document.addEventListener("keydown", (event) => this.#key(event));
    this.#render();
  }

  /** The game goes on against the other checkpoint. */
  show() {
    void this.#go();
  }

  /** A newer checkpoint may answer the next move. @returns {Promise<void>} */
  idle() {
    return Promise.resolve();
  }

  /** @param {number} column */
  #columnButton(column) {
    const button = document.createElement("button");
    button.type = "button";
    button.id = `four-column-${column + 1}`;
    button.className = "four-column";
    button.dataset["column"] = String(column);
    const cells = Array.from({ length: ROWS }, () => {
      const cell = document.createElement("span");
      cell.className = "disc";
      return cell;
    });
    const share = document.createElement("span");
    share.className = "four-share";
    button.append(...cells, share);
    button.addEventListener("click", () => this.#drop(column));
    return button;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || (event.target instanceof Element && event.target.closest("input, select, textarea"))) return;
    if (/^[1-7]$/.test(event.key)) return this.#drop(Number(event.key) - 1);
    const at = Number(document.activeElement?.getAttribute("data-column") ?? NaN);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (Number.isNaN(at) || step === undefined) return undefined;
    event.preventDefault();
    return /** @type {HTMLElement} */ (this.#board.children[(at + step + COLUMNS) % COLUMNS]).focus();
  }

  #newGame() {
    const starts = /** @type {HTMLSelectElement} */ (byId("four-starts")).value;
    this.#person = starts === "you" ? "first" : "second";
    this.#moves = "";
    this.#said = [];
    void this.#go();
  }

  #undo() {
    const before = undone(this.#moves, this.#person);
    if (before === this.#moves) return;
    this.#moves = before;
    this.#said = ["Your last move is taken back."];
    void this.#go();
  }

  /** @param {number} column */
  #drop(column) {
    const position = this.#position;
    if (!position || position.winner !== "none" || playerToMove(this.#moves) !== this.#person) return;
    if (!position.legal.includes(column)) {
      setText("play-status", `Column ${column + 1} is full. Your turn.`);
      return;
    }
    this.#moves += String(column);
    this.#said = [`You: column ${column + 1}.`];
    void this.#go();
  }

  /** Ask about the position, and let the model move while it is its turn. */
  async #go() {
    const turn = ++this.#turn;
    this.#position = null;
    show("four-retry", false);
    this.#render();
    try {
      for (;;) {
        const position = /** @type {Position} */ (await this.#asking.ask({ moves: this.#moves }));
        if (turn !== this.#turn) return;
        this.#position = position;
        if (position.winner !== "none" || position.move === null || playerToMove(this.#moves) === this.#person) break;
        this.#moves += String(position.move);
        this.#said.push(`The model: column ${position.move + 1}.`);
        this.#position = null;
        this.#render();
      }
      this.#asking.problem(null);
    } catch (error) {
      if (turn !== this.#turn) return;
      this.#asking.problem(error);
      show("four-retry", true);
    }
    this.#render();
  }

  #render() {
    const columns = discs(this.#moves);
    const position = this.#position;
    const winning = new Set(position?.line.map(([column, row]) => `${column} ${row}`));
    const last = Number(this.#moves.at(-1) ?? NaN);
    [...this.#board.children].forEach((button, column) => {
      const held = columns[column] ?? [];
      const thought = this.#thinks && position && position.winner === "none" ? percent(position.policy[column]) : "";
      button.setAttribute("aria-label", `${columnText(held, column, this.#person)}${thought && `, the model: ${thought}`}`);
      button.setAttribute("aria-disabled", String(!position?.legal.includes(column) || position.winner !== "none"));
      for (let row = 0; row < ROWS; row += 1) {
        const cell = button.children[ROWS - 1 - row];
        const whose = held[row] === undefined ? "free" : held[row] === this.#person ? "yours" : "models";
        const newest = column === last && row === held.length - 1;
        if (cell) cell.className = `disc ${whose}${winning.has(`${column} ${row}`) ? " won" : ""}${newest ? " newest" : ""}`;
      }
      const share = button.lastElementChild;
      if (share) share.textContent = thought;
    });
    this.#renderText();
  }

  #renderText() {
    const position = this.#position;
    const personMoves = playerToMove(this.#moves) === this.#person;
    const next = position ? (endText(position, this.#person) ?? "Your turn.") : "The model thinks…";
    setText("play-status", [...this.#said, next].join(" "));
    setText("four-moves", this.#moves ? [...this.#moves].map((column) => Number(column) + 1).join(", ") : "none yet");
    const thought = this.#thinks && position && position.winner === "none";
    showText("four-thought", thought ? thoughtText(position, personMoves) : null);
    /** @type {HTMLButtonElement} */ (byId("four-undo")).disabled = undone(this.#moves, this.#person) === this.#moves;
  }
}
