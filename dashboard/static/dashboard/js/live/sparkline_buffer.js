/** Sparkline buffer: a ring of the last two minutes of one number, for each row of a table. */

const LENGTH = 120;

export class SparklineBuffer {
  constructor() {
    /** @type {Map<string, (number | null)[]>} */
    this.rows = new Map();
  }

  /** @param {string} name @param {(number | null)[]} values oldest first */
  reset(name, values) {
    this.rows.set(name, values.slice(-LENGTH));
  }

  /** @param {string} name @param {number | null} value */
  push(name, value) {
    const row = this.rows.get(name) ?? [];
    row.push(value);
    if (row.length > LENGTH) row.shift();
    this.rows.set(name, row);
  }

  /** @param {string} name @returns {(number | null)[]} */
  of(name) {
    return this.rows.get(name) ?? [];
  }
}
