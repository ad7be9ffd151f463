/** Time series in columns, as uPlot takes them: at most CAPACITY seconds, each once, gaps left as gaps. */

const CAPACITY = 960;
/** Two points further apart than this have something missing between them. */
const HOLE_S = 2.5;
/** Two points closer than this are the same second, once live and once from history. */
const SAME_S = 0.2;

/** @typedef {(number | null)[]} Column */

export class TimeSeries {
  /** Grows with every change, so that a chart knows whether to draw. */
  version = 0;
  /** Unix seconds. @type {number[]} */
  at = [];
  /** @type {Column} */
  rps = [];
  /** @type {Column} */
  p50 = [];
  /** @type {Column} */
  p99 = [];
  /** @type {Column} */
  inFlight = [];
  /** @type {Column} */
  waiting = [];

  /** Replaces everything. @param {import("../frames.js").Point[]} points oldest first */
  reset(points) {
    this.at = [];
    this.rps = [];
    this.p50 = [];
    this.p99 = [];
    this.inFlight = [];
    this.waiting = [];
    for (const point of points) this.push(point);
    this.version++;
  }

  /** Adds one point, unless it is not newer than the newest. @param {import("../frames.js").Point} point */
  push(point) {
    const last = this.at.at(-1);
    if (last !== undefined && point.at < last + SAME_S) return;
    if (last !== undefined && point.at - last > HOLE_S) this.#append(last + 1, null, null, null, null, null);
    this.#append(point.at, point.rps, point.p50_s, point.p99_s, point.in_flight, point.waiting ?? 0);
    while (this.at.length > CAPACITY) this.#columns().forEach((column) => column.shift());
    this.version++;
  }

  /**
   * @param {number} at @param {number | null} rps @param {number | null} p50 @param {number | null} p99
   * @param {number | null} inFlight @param {number | null} waiting
   */
  #append(at, rps, p50, p99, inFlight, waiting) {
    this.at.push(at);
    this.rps.push(rps);
    this.p50.push(p50);
    this.p99.push(p99);
    this.inFlight.push(inFlight);
    this.waiting.push(waiting);
  }

  #columns() {
    return [this.at, this.rps, this.p50, this.p99, this.inFlight, this.waiting];
  }

  /** Largest value of a column, or null. @param {"rps" | "p50" | "p99" | "inFlight" | "waiting"} name */
  peak(name) {
    let peak = null;
    for (const value of this[name]) if (value !== null && (peak === null || value > peak)) peak = value;
    return peak;
  }
}
