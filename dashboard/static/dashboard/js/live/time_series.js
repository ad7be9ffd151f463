/** Time series in columns, as uPlot takes them: at most CAPACITY seconds, each once, gaps left as gaps. */

const CAPACITY = 960;
/** Two points further apart than this have something missing between them. */
const HOLE_S = 2.5;
/** Two points closer than this are the same second, once live and once from history. */
const SAME_S = 0.2;

/** Column → field of `Point`. */
const FIELDS = /** @type {const} */ ({ rps: "rps", p50: "p50_s", p99: "p99_s", inFlight: "in_flight", waiting: "waiting" });

/** @typedef {keyof typeof FIELDS} ColumnName */
/** @typedef {Record<ColumnName, (number | null)[]>} Columns */

const NAMES = /** @type {ColumnName[]} */ (Object.keys(FIELDS));

/** @returns {Columns} */
function emptyColumns() {
  return /** @type {Columns} */ (Object.fromEntries(NAMES.map((name) => [name, []])));
}

export class TimeSeries {
  /** Grows with every change, so that a chart knows whether to draw. */
  version = 0;
  /** Unix seconds. @type {number[]} */
  at = [];
  columns = emptyColumns();

  /** Replaces everything. @param {import("../frames.js").Point[]} points oldest first */
  reset(points) {
    this.at = [];
    this.columns = emptyColumns();
    for (const point of points) this.push(point);
    this.version++;
  }

  /** Adds one point, unless it is not newer than the newest. @param {import("../frames.js").Point} point */
  push(point) {
    const last = this.at.at(-1);
    if (last !== undefined && point.at < last + SAME_S) return;
    if (last !== undefined && point.at - last > HOLE_S) this.#append(last + 1, null);
    this.#append(point.at, point);
    while (this.at.length > CAPACITY) [this.at, ...Object.values(this.columns)].forEach((column) => column.shift());
    this.version++;
  }

  /** @param {number} at @param {import("../frames.js").Point | null} point null: a gap */
  #append(at, point) {
    this.at.push(at);
    for (const name of NAMES) {
      const value = point ? point[FIELDS[name]] : null;
      this.columns[name].push(value === undefined ? 0 : value); // undefined: from an older server
    }
  }

  /** Largest value of a column, or null. @param {ColumnName} name */
  peak(name) {
    let peak = null;
    for (const value of this.columns[name]) if (value !== null && (peak === null || value > peak)) peak = value;
    return peak;
  }
}
