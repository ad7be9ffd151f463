/** Options of the hardware class field: the classes that a form can choose from. */
import { weight as written } from "../format.js";
import { allPages } from "../live/polling.js";

export class HardwareClassOptions {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {{name: string, weight: number}[]} */
    this.list = [];
  }

  /** Once a form opens; without them the form still works. */
  async read() {
    try {
      this.list = await allPages("/hardware-classes");
      this.changed();
    } catch {
      // The field then offers what the replica has.
    }
  }

  /** For a `<select>`. @param {string} present what is chosen, which may be gone @returns {[string, string][]} */
  options(present) {
    const known = this.list.map(({ name, weight }) => /** @type {[string, string]} */ ([name, `${name} · weight ${written(weight)}`]));
    const missing = present && !this.list.some((one) => one.name === present);
    return [["", "none"], ...known, ...(missing ? [/** @type {[string, string]} */ ([present, present])] : [])];
  }

  /** What a replica without a weight of its own gets. @param {string} name */
  weight(name) {
    return written(this.list.find((one) => one.name === name)?.weight ?? 1);
  }
}
