/** What the part about accelerators does: list, create, change, delete, and what requests lease there now. */
import { bytes, bytesOf, typed } from "../bytes.js";
import { Draft, numeric } from "../edit/draft.js";
import { FocusBack } from "../edit/focus_back.js";
import { Reading } from "../edit/reading.js";
import { text } from "../format.js";
import { Feed } from "../live/feed.js";

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
  /** @param {import("../edit/panels.js").Panels} panels @param {() => void} changed */
  constructor(panels, changed) {
    this.panels = panels;
    this.changed = changed;
    this.reading = new Reading(PATH, changed, true);
    this.draft = new Draft("new-accelerator", { name: "", memory_bytes: "", headroom_percent: "" }, changed);
    /** Of the row that is being changed. @type {Draft | null} */
    this.row = null;
    /** The accelerator of that row, and whether it is a change or its end. */
    this.editing = "";
    this.deleting = false;
    /** What became of the last change, in words. */
    this.done = "";
    this.focus = new FocusBack();
    /** What the newest frame says, by name. @type {Map<string, import("../frames.js").AcceleratorLive>} */
    this.live = new Map();
    const take = (/** @type {import("../frames.js").OverviewFrame | null} */ frame) => {
      this.live = new Map((frame?.accelerators ?? []).map((one) => [one.name, one]));
      changed();
    };
    this.feed = new Feed("/ws/overview", { hello: (hello) => take(hello.frame), frame: take, change: changed });
  }

  start() {
    this.reading.start();
    this.feed.start();
  }

  /** Bytes that requests lease there now; null: nobody knows. @param {Accelerator} one */
  leased({ name }) {
    return this.feed.liveness === "live" ? (this.live.get(name)?.leased_bytes ?? null) : null;
  }

  body() {
    const { draft } = this;
    const headroom = numeric(draft.text("headroom_percent"));
    return { name: draft.text("name"), memory_bytes: bytesOf(draft.text("memory_bytes")), ...(headroom !== null && { headroom_percent: headroom }) };
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
    this.editing = one.name;
    this.deleting = deleting;
    this.row.problem = "";
    this.changed();
  }

  close() {
    this.editing = "";
    this.changed();
    this.focus.give();
  }

  /** What was changed in the row. @param {Draft} draft */
  changes(draft) {
    return {
      ...(draft.touched("memory_bytes") && { memory_bytes: bytesOf(draft.text("memory_bytes")) }),
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
    this.reading.read();
  }
}
