/** State and actions of the hardware classes: create, change, delete. */
import { Draft, numeric } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";

export const PATH = "/hardware-classes";

/** @typedef {{name: string, weight: number, replicas: number}} HardwareClass */

export class HardwareModel {
  /**
   * @param {import("../live/polling.js").Polling} polling @param {import("../edit/panel_switch.js").PanelSwitch} panels
   * @param {() => void} changed
   */
  constructor(polling, panels, changed) {
    this.polling = polling;
    this.panels = panels;
    this.draft = new Draft("new-hardware", { name: "", weight: "" }, changed);
    this.changed = changed;
    /** Of the row that is being changed. @type {Draft | null} */
    this.row = null;
    /** The class of that row, and whether its weight is being changed or the class deleted. */
    this.editing = "";
    this.deleting = false;
    /** Result of the last change: class → text. @type {{name: string, text: string} | null} */
    this.done = null;
    this.focus = new FocusRestore();
  }

  body() {
    const weight = numeric(this.draft.text("weight"));
    return weight === null ? { name: this.draft.text("name") } : { name: this.draft.text("name"), weight };
  }

  async create() {
    const answer = await this.draft.send("POST", PATH, this.body(), { taken: "name" });
    if (!answer) return;
    this.draft.reset();
    this.#finish(answer.data.name, `created with weight ${answer.data.weight}`);
    this.panels.close();
  }

  /** @param {HardwareClass} one @param {boolean} deleting */
  open(one, deleting) {
    if (this.editing !== one.name || !this.row) {
      this.row = new Draft(`hardware-${one.name}`, { weight: String(one.weight) }, this.changed);
    }
    this.focus.remember();
    this.editing = one.name;
    this.deleting = deleting;
    this.row.problem = "";
    this.changed();
  }

  close() {
    this.editing = "";
    this.changed();
    this.focus.restore();
  }

  async save() {
    const { row, editing } = this;
    const answer = await row?.send("PATCH", `${PATH}/${editing}`, { weight: numeric(row.text("weight")) });
    if (!row || !answer) return;
    row.reset({ weight: String(answer.data.weight) });
    this.#finish(editing, `weight is ${answer.data.weight} now`);
    this.close();
  }

  async remove() {
    const { row, editing } = this;
    if (!(await row?.send("DELETE", `${PATH}/${editing}`))) return;
    this.editing = "";
    this.done = { name: "", text: `${editing} is deleted.` };
    this.panels.focusFirst();
    await this.polling.read();
  }

  /** @param {string} name @param {string} text */
  #finish(name, text) {
    this.done = { name, text };
    this.polling.read();
  }
}
