// Ours, not uPlot's: the part of its interface that the charts of static/pages use, for tsc.
export default class uPlot {
  constructor(options: object, data: Array<Array<number | null | undefined>>, host: HTMLElement);
  readonly width: number;
  readonly ctx: CanvasRenderingContext2D;
  readonly over: HTMLElement;
  readonly cursor: { idx?: number | null; left?: number };
  readonly scales: Record<string, { min?: number | null; max?: number | null }>;
  setData(data: Array<Array<number | null | undefined>>, resetScales?: boolean): void;
  setSize(size: { width: number; height: number }): void;
  setScale(key: string, range: { min: number; max: number }): void;
  setSeries(index: number, options: { show: boolean }): void;
  setCursor(at: { left: number; top: number }): void;
  posToVal(position: number, scale: string): number;
  valToPos(value: number, scale: string): number;
  destroy(): void;
}
