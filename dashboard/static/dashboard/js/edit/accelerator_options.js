/** Options of the accelerator field: the accelerators that a form can choose from. */
import { allPages } from "../live/polling.js";

export class AcceleratorOptions {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** Null: not read yet. @type {import("../accelerators/model.js").Accelerator[] | null} */
    this.list = null;
  }

  /** Once a form opens; without them the form still works. */
  async read() {
    try {
      this.list = await allPages("/accelerators");
    } catch {
      this.list ??= []; // the field then offers what the replica has
    }
    this.changed();
  }
}
