/** `weei.widgetsApi`: what a page gets by a widget's id, and the built-in window, which is loaded when it is first opened. */

export const TRAINING = "distributed-training";

/** @typedef {import("../weei.js").DistributedTraining} DistributedTraining */
/** Whether the widget is enabled for this site and user, and if not, why. @typedef {{training: boolean, reason: string | null}} Site */
/** @typedef {Pick<import("../widget/window.js").WidgetWindow, "open" | "setVisible">} Window */

/** @type {(parts: {training: DistributedTraining, base: string}) => Promise<Window>} */
const builtIn = async (parts) => new (await import("../widget/window.js")).WidgetWindow(parts);

export class Widgets {
  /** @type {Promise<Window> | null} */ #window = null;
  #visible = true;
  #training;
  #site;
  #base;
  #load;

  /** @param {{training: DistributedTraining, site: Site, base: string, load?: typeof builtIn}} of `base`: the origin of the Weei site */
  constructor({ training, site, base, load = builtIn }) {
    this.#training = training;
    this.#site = site;
    this.#base = base;
    this.#load = load;
  }

  /** @param {string} id @returns {any} */
  get(id) {
    return id === TRAINING && this.#site.training ? this.#training : undefined;
  }

  /** @param {string} id */
  async enable(id) {
    if (id !== TRAINING) throw new Error(`There is no widget ${JSON.stringify(id)}; there is ${JSON.stringify(TRAINING)}.`);
    if (!this.#site.training) throw new Error(this.#site.reason ?? "Distributed training is not enabled for this site.");
    this.#window ??= this.#load({ training: this.#training, base: this.#base }).catch((error) => {
      this.#window = null;
      throw error;
    });
    const opened = await this.#window;
    opened.setVisible(this.#visible);
    opened.open();
  }

  /** Training goes on. @param {boolean} visible */
  setVisibility(visible) {
    this.#visible = Boolean(visible);
    void this.#window?.then((opened) => opened.setVisible(this.#visible));
  }
}
