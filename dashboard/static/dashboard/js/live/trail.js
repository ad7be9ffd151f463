/** The last two minutes of one small number for each of many rows: what a sparkline draws. */

const LENGTH = 120;

export class Trail {
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
