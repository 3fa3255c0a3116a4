// Looking into a chart by keyboard, wheel, fingers and with Shift by dragging. Dragging without Shift is uPlot's own.

/** @typedef {{zoom(factor: number, at?: number): void, pan(part: number): void, reset(): void, step(by: number): void, leave(): void, readonly plot: {over: HTMLElement} | null}} View */

export const CLOSER = 0.5;
const STEP = 0.25;

/** @type {Record<string, (view: View) => void>} */
const KEYS = {
  "+": (view) => view.zoom(CLOSER),
  "=": (view) => view.zoom(CLOSER),
  "-": (view) => view.zoom(1 / CLOSER),
  "_": (view) => view.zoom(1 / CLOSER),
  0: (view) => view.reset(),
  ArrowLeft: (view) => view.pan(-STEP),
  ArrowRight: (view) => view.pan(STEP),
  "Shift ArrowLeft": (view) => view.step(-1),
  "Shift ArrowRight": (view) => view.step(1),
  Escape: (view) => view.leave(),
};

/** @param {HTMLElement} host @param {View} view */
export function startGestures(host, view) {
  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = KEYS[event.shiftKey && event.key.startsWith("Arrow") ? `Shift ${event.key}` : event.key];
    if (!action) return;
    event.preventDefault();
    // A page's own shortcuts may have the same keys.
    event.stopPropagation();
    action(view);
  });
  host.addEventListener("wheel", (event) => wheel(event, view), { passive: false });
  new Fingers(host, view);
}

/** Pixels from the left of the drawing. @param {View} view @param {number} x */
const place = (view, x) => x - (view.plot?.over.getBoundingClientRect().left ?? 0);

/** A wheel without Ctrl or ⌘ scrolls the page; pinching on a touchpad comes as a wheel with Ctrl. @param {WheelEvent} event @param {View} view */
function wheel(event, view) {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    view.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 120), place(view, event.clientX));
  } else if (event.shiftKey) {
    event.preventDefault();
    view.pan((event.deltaX || event.deltaY) / (view.plot?.over.clientWidth || 600));
  }
}

/** Two fingers zoom, one moves; a mouse moves with Shift. Up and down stays with the page (touch-action in charts.css). */
class Fingers {
  #view;
  /** @type {Map<number, number>} x of each pointer */ #down = new Map();

  /** @param {HTMLElement} host @param {View} view */
  constructor(host, view) {
    this.#view = view;
    host.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.shiftKey) this.#down.set(event.pointerId, event.clientX);
    });
    addEventListener("pointermove", (event) => this.#move(event));
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) addEventListener(name, (event) => this.#down.delete(event.pointerId));
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#down.get(event.pointerId);
    if (before === undefined) return;
    const others = [...this.#down].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    this.#down.set(event.pointerId, event.clientX);
    const other = others[0];
    if (other === undefined) {
      this.#view.pan((before - event.clientX) / (this.#view.plot?.over.clientWidth || 600));
      return;
    }
    const [apart, now] = [Math.abs(before - other), Math.abs(event.clientX - other)];
    if (apart > 10 && now > 10) this.#view.zoom(apart / now, place(this.#view, (event.clientX + other) / 2));
  }
}
