// Ours, not uPlot's: the part of its interface that static/pages/chart.js uses, for tsc.
export default class uPlot {
  constructor(options: object, data: Array<Array<number | null | undefined>>, host: HTMLElement);
  readonly width: number;
  readonly cursor: { idx?: number | null };
  setData(data: Array<Array<number | null | undefined>>): void;
  setSize(size: { width: number; height: number }): void;
  setSeries(index: number, options: { show: boolean }): void;
  destroy(): void;
}
