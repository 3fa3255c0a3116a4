// A picture of numbers to draw into with a pointer. The numbers stand in a text field beside it, for the keyboard.

/** Half a pixel away the pen is at full strength, and this much further it ends. */
const FADE = 0.9;

export class Paper {
  element = document.createElement("div");
  /** @type {number[]} row by row */ values;
  #canvas = document.createElement("canvas");
  #shape;
  #onDrawn;

  /**
   * @param {{columns: number, minimum: number, maximum: number}} shape
   * @param {number[]} values
   * @param {(values: number[]) => void} onDrawn
   */
  constructor(shape, values, onDrawn) {
    this.#shape = shape;
    this.#onDrawn = onDrawn;
    this.values = values;
    this.#canvas.className = "paper";
    this.#canvas.width = shape.columns;
    this.#canvas.height = values.length / shape.columns;
    this.#canvas.setAttribute("role", "img");
    this.#canvas.setAttribute("aria-label", "The numbers below as a picture; draw with the pointer");
    this.#canvas.addEventListener("pointerdown", (event) => {
      this.#canvas.setPointerCapture(event.pointerId);
      this.#draw(event);
    });
    this.#canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) this.#draw(event);
    });
    const clear = document.createElement("button");
    clear.type = "button";
    clear.className = "slim";
    clear.textContent = "Clear";
    clear.addEventListener("click", () => this.#change(this.values.map(() => shape.minimum)));
    this.element.append(this.#canvas, clear);
    this.show(values);
  }

  /** @param {number[]} values */
  show(values) {
    this.values = values;
    const { columns, minimum, maximum } = this.#shape;
    const pen = /** @type {CanvasRenderingContext2D} */ (this.#canvas.getContext("2d"));
    values.forEach((value, index) => {
      const light = Math.round((255 * (value - minimum)) / (maximum - minimum));
      pen.fillStyle = `rgb(${light} ${light} ${light})`;
      pen.fillRect(index % columns, Math.floor(index / columns), 1, 1);
    });
  }

  /** Full strength where the pointer is, less beside it. @param {PointerEvent} event */
  #draw(event) {
    const { columns, minimum, maximum } = this.#shape;
    const box = this.#canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.#canvas.width - 0.5;
    const y = ((event.clientY - box.top) / box.height) * this.#canvas.height - 0.5;
    const drawn = this.values.map((value, index) => {
      const distance = Math.hypot((index % columns) - x, Math.floor(index / columns) - y) - 0.5;
      const strength = Math.min(1, Math.max(0, 1 - distance / FADE));
      return Math.max(value, minimum + Math.round(strength * (maximum - minimum)));
    });
    this.#change(drawn);
  }

  /** @param {number[]} values */
  #change(values) {
    this.show(values);
    this.#onDrawn(values);
  }
}
