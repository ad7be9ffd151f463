/** State and actions of the accelerators: list, create, change, delete, and the memory that requests lease now. */
import { bytes, parseBytes, typed } from "../bytes.js";
import { Draft, numeric } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";
import { Polling } from "../live/polling.js";
import { text } from "../format.js";
import { Feed } from "../live/feed.js";
import { Drain } from "./drain.js";

export const PATH = "/accelerators";

/**
 * @typedef {{fleet: string, replica: string, memory_bytes: number | null, request_bytes: number, request_bytes_per_work: number}} Placed
 * @typedef {{name: string, memory_bytes: number, headroom_percent: number, usable_bytes: number, held_bytes: number,
 *   leased_bytes: number | null, replicas: Placed[]}} Accelerator
 */

/** @param {Accelerator} one */
function valuesOf({ memory_bytes, headroom_percent }) {
  return { memory_bytes: typed(memory_bytes), headroom_percent: String(headroom_percent) };
}

export class AcceleratorsModel {
  /** @param {import("../edit/panel_switch.js").PanelSwitch} panels @param {() => void} changed */
  constructor(panels, changed) {
    this.panels = panels;
    this.changed = changed;
    this.polling = new Polling(PATH, changed, true);
    this.draft = new Draft("new-accelerator", { name: "", memory_bytes: "", headroom_percent: "" }, changed);
    /** Of the row that is being changed. @type {Draft | null} */
    this.row = null;
    /** The accelerator of that row, and whether it is being changed or deleted. */
    this.editing = "";
    this.deleting = false;
    /** Result of the last change, as text. */
    this.done = "";
    /** The dialog that drains, of the row that has it open. @type {Drain | null} */
    this.drain = null;
    this.focus = new FocusRestore();
    /** Live numbers of the newest frame, by name. @type {Map<string, import("../frames.js").AcceleratorLive>} */
    this.live = new Map();
    /** What exporters say of their hosts. @type {import("../frames.js").HostLive[]} */
    this.hosts = [];
    const take = (/** @type {import("../frames.js").OverviewFrame | null} */ frame) => {
      this.live = new Map((frame?.accelerators ?? []).map((one) => [one.name, one]));
      this.hosts = frame?.hosts ?? [];
      changed();
    };
    this.feed = new Feed("/ws/overview", { initial: (message) => take(message.frame), frame: take, change: changed });
  }

  start() {
    this.polling.start();
    this.feed.start();
  }

  /** Bytes that requests lease there now; null: nobody knows. @param {Accelerator} one */
  leased({ name }) {
    return this.feed.liveness === "live" ? (this.live.get(name)?.leased_bytes ?? null) : null;
  }

  /** What an exporter says of it; null: nothing, or that is old. @param {Accelerator} one */
  measured({ name }) {
    return this.feed.liveness === "live" ? (this.live.get(name)?.measured ?? null) : null;
  }

  body() {
    const { draft } = this;
    const headroom = numeric(draft.text("headroom_percent"));
    return { name: draft.text("name"), memory_bytes: parseBytes(draft.text("memory_bytes")), ...(headroom !== null && { headroom_percent: headroom }) };
  }

  async create() {
    const answer = await this.draft.send("POST", PATH, this.body(), { taken: "name" });
    if (!answer) return;
    this.draft.reset();
    this.#finish(`${answer.data.name} is created with ${text(bytes(answer.data.memory_bytes))}.`);
    this.panels.close();
  }

  /** @param {Accelerator} one @param {boolean} deleting */
  open(one, deleting) {
    if (this.editing !== one.name || !this.row) this.row = new Draft(`accelerator-${one.name}`, valuesOf(one), this.changed);
    this.focus.remember();
    this.drain = null;
    this.editing = one.name;
    this.deleting = deleting;
    this.row.problem = "";
    this.changed();
  }

  /** @param {Accelerator} one */
  openDrain(one) {
    this.focus.remember();
    this.editing = "";
    this.drain = new Drain(one.name, this.changed);
    this.changed();
  }

  close() {
    this.editing = "";
    this.drain = null;
    this.changed();
    this.focus.restore();
  }

  /** What was changed in the row. @param {Draft} draft */
  changes(draft) {
    return {
      ...(draft.touched("memory_bytes") && { memory_bytes: parseBytes(draft.text("memory_bytes")) }),
      ...(draft.touched("headroom_percent") && { headroom_percent: numeric(draft.text("headroom_percent")) }),
    };
  }

  async save() {
    const { row, editing } = this;
    const answer = row && (await row.send("PATCH", `${PATH}/${editing}`, this.changes(row)));
    if (!row || !answer) return;
    row.reset(valuesOf(answer.data));
    this.#finish(`${editing} has ${text(bytes(answer.data.memory_bytes))} now, of which ${text(bytes(answer.data.usable_bytes))} can be used.`);
    this.close();
  }

  async remove() {
    const { row, editing } = this;
    if (!(await row?.send("DELETE", `${PATH}/${editing}`))) return;
    this.editing = "";
    this.panels.focusFirst();
    this.#finish(`${editing} is deleted.`);
  }

  /** @param {string} words */
  #finish(words) {
    this.done = words;
    this.polling.read();
  }
}
