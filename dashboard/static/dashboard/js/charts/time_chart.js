/** Time-series chart, made with uPlot: the last minutes up to now, from zero, lines without points. */
import { moment } from "../format.js";
import { markerLines } from "./markers.js";
import { color } from "./palette.js";

/** @typedef {{label: string, token: string, fill?: boolean}} Line */
/**
 * @typedef {{lines: Line[], format: (value: number) => string, floor: number, markers: () => import("./markers.js").Marker[],
 *   hover: (index: number | null) => void}} ChartOptions `floor`: the smallest top of the scale
 */

const LEFT_AXIS_PX = 52;
const uPlot = /** @type {any} */ (globalThis).uPlot;
/** Charts of a page share their cursor. */
const cursors = uPlot.sync("page");

export class TimeChart {
  /** @param {HTMLElement} place @param {ChartOptions} options */
  constructor(place, options) {
    this.place = place;
    this.options = options;
    this.drawn = "";
    this.range = [0, 1];
    this.plot = this.#make([[], ...options.lines.map(() => [])]);
    this.sizes = new ResizeObserver(() => this.#fit());
    this.sizes.observe(place);
  }

  /**
   * Draws, unless nothing changed since.
   * @param {any[][]} columns times in Unix seconds, then one column a line @param {number} seconds shown
   * @param {string} version of columns and markers
   */
  show(columns, seconds, version) {
    const key = `${version}/${seconds}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const now = columns[0].at(-1) ?? Date.now() / 1000;
    this.range = [now - seconds, now];
    this.plot.setData(columns);
  }

  /** After a change of theme. */
  recolor() {
    const data = this.plot.data;
    this.plot.destroy();
    this.plot = this.#make(data);
  }

  destroy() {
    this.sizes.disconnect();
    this.plot.destroy();
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.place;
    if (width && height) this.plot.setSize({ width, height });
  }

  /** @param {any[][]} data */
  #make(data) {
    const { lines, hover, markers } = this.options;
    const config = {
      width: this.place.clientWidth || 300,
      height: this.place.clientHeight || 150,
      padding: [10, 20, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { setScale: false, x: false, y: false },
        points: { size: 6 },
        sync: { key: cursors.key, setSeries: false },
      },
      scales: { x: { time: false, range: () => this.range }, y: { range: (/** @type {any} */ plot) => [0, this.#top(plot)] } },
      axes: this.#axes(),
      series: [{}, ...lines.map(stroke)],
      plugins: [markerLines(markers)],
      hooks: { setCursor: [(/** @type {any} */ plot) => hover(plot.cursor.idx ?? null)] },
    };
    return new uPlot(config, data, this.place);
  }

  /** The largest value in view decides, not one that has scrolled out. @param {any} plot */
  #top(plot) {
    const [times, ...columns] = plot.data;
    let top = this.options.floor;
    for (let index = times.length - 1; index >= 0 && times[index] >= this.range[0]; index--) {
      for (const column of columns) if (column[index] > top) top = column[index];
    }
    return top * 1.12;
  }

  #axes() {
    const common = { stroke: color("--ink-3"), font: "10.5px Inter, system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: color("--grid"), width: 1 };
    return [
      {
        ...common,
        size: 24,
        gap: 6,
        grid: { show: false },
        splits: () => this.#times(),
        values: (/** @type {any} */ _plot, /** @type {number[]} */ at) => at.map((when) => this.#ago(when)),
      },
      {
        ...common,
        size: LEFT_AXIS_PX,
        gap: 6,
        space: 34,
        grid,
        values: (/** @type {any} */ _plot, /** @type {number[]} */ at) => at.map(this.options.format),
      },
    ];
  }

  /** Now, and whole minutes back. */
  #times() {
    const [from, now] = this.range;
    const step = 60 * Math.max(1, Math.round((now - from) / 60 / 3));
    const times = [];
    for (let at = now; at >= from - 0.5; at -= step) times.unshift(at);
    return times;
  }

  /** @param {number} when */
  #ago(when) {
    const minutes = Math.round((this.range[1] - when) / 60);
    return minutes ? `−${minutes} min` : "now";
  }
}

/** @param {Line} line */
function stroke({ label, token, fill = false }) {
  const ink = color(token);
  return {
    label,
    stroke: ink,
    width: 1.4,
    fill: fill ? ink.replace("rgb(", "rgba(").replace(")", ", 0.09)") : undefined,
    points: { show: false },
    spanGaps: false,
  };
}

/** The time under the cursor. @param {number} at Unix seconds */
export function clockTime(at) {
  return moment(new Date(at * 1000));
}
