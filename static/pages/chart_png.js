// A chart as a picture with its title and its legend, in the colours that the page has now.
import { color, toneColor } from "./chart_look.js";

/** @typedef {import("./chart_look.js").Line} Line */

const MARGIN = 16;
const ROW = 22;
const SWATCH = 28;
const FONT = "13px system-ui, sans-serif";

/** Rows of the legend, each with where its entries begin. @param {CanvasRenderingContext2D} ink @param {readonly Line[]} lines @param {number} width */
function rowsOf(ink, lines, width) {
  /** @type {Array<Array<{line: Line, x: number}>>} */
  const rows = [[]];
  let x = MARGIN;
  for (const line of lines) {
    const needed = SWATCH + 8 + ink.measureText(line.name).width + 20;
    if (x > MARGIN && x + needed > width) {
      rows.push([]);
      x = MARGIN;
    }
    rows.at(-1)?.push({ line, x });
    x += needed;
  }
  return rows;
}

/** @param {CanvasRenderingContext2D} ink @param {Line} line @param {number} x @param {number} y */
function entry(ink, line, x, y) {
  ink.beginPath();
  ink.strokeStyle = toneColor(line.tone);
  ink.lineWidth = line.width;
  ink.setLineDash(line.dash ?? []);
  ink.moveTo(x, y);
  ink.lineTo(x + SWATCH, y);
  ink.stroke();
  ink.fillStyle = color("--text");
  ink.fillText(line.name, x + SWATCH + 8, y);
}

/** @param {{width: number, ctx: CanvasRenderingContext2D}} plot @param {{title: string, note: string, lines: readonly Line[]}} about @returns {Promise<Blob>} */
export function picture(plot, { title, note, lines }) {
  const drawing = plot.ctx.canvas;
  const ratio = drawing.width / plot.width;
  const canvas = document.createElement("canvas");
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ink.font = FONT;
  const width = plot.width + 2 * MARGIN;
  const rows = rowsOf(ink, lines, width - MARGIN);
  const top = MARGIN + 50 + rows.length * ROW;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round((top + MARGIN) * ratio + drawing.height);
  ink.scale(ratio, ratio);
  ink.fillStyle = color("--surface");
  ink.fillRect(0, 0, canvas.width, canvas.height);
  ink.textBaseline = "middle";
  ink.font = "600 18px system-ui, sans-serif";
  ink.fillStyle = color("--text");
  ink.fillText(title, MARGIN, MARGIN + 10, width - 2 * MARGIN);
  ink.font = FONT;
  ink.fillStyle = color("--muted");
  ink.fillText(note, MARGIN, MARGIN + 34, width - 2 * MARGIN);
  rows.forEach((row, at) => row.forEach(({ line, x }) => entry(ink, line, x, MARGIN + 60 + at * ROW)));
  ink.setTransform(1, 0, 0, 1, 0, 0);
  ink.drawImage(drawing, Math.round(MARGIN * ratio), Math.round(top * ratio));
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser could not make the picture."))), "image/png");
  });
}
