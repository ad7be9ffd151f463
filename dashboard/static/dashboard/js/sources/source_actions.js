/** State and actions of the sources panel: forms that make, change and delete a source; pause, resume and list again. */
import { api, ApiProblem } from "../api.js";
import { Draft } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";
import { HardwareClassOptions } from "../edit/hardware_class_options.js";
import { plural } from "../format.js";
import { changes, fieldOf, merged, newBody, settingsOf, shownValues } from "./source_fields.js";
import { SourceTrial } from "./source_trial.js";

export const UNDO_FOR_MS = 10_000;

/** @typedef {import("./sources.js").Source} Source */

export class SourceActions {
  /** @param {string} fleet @param {import("./sources.js").Sources} sources @param {() => void} changed */
  constructor(fleet, sources, changed) {
    this.fleet = fleet;
    this.path = `/fleets/${fleet}/sources`;
    this.sources = sources;
    this.changed = changed;
    this.draft = new Draft("new-source", shownValues({}), changed, fieldOf);
    this.trial = new SourceTrial(fleet, this.draft, () => newBody(this.draft));
    this.classes = new HardwareClassOptions(changed);
    /** What is open: "new", or "edit" or "delete" with the source's name. */
    this.open = { form: "", name: "" };
    /** Of the source that is being changed. @type {{draft: Draft, trial: SourceTrial, stored: any, etag: string | null} | null} */
    this.edit = null;
    this.row = new Draft("source-row", {}, changed);
    /** The row that an action is under way in. */
    this.busy = "";
    /** What was done last, and how it is taken back for a while. @type {{words: string, bad?: boolean, undo?: () => Promise<void>, until?: number} | null} */
    this.done = null;
    this.focus = new FocusRestore();
  }

  /** @param {string} form @param {string} [name] */
  isOpen(form, name = "") {
    return this.open.form === form && this.open.name === name;
  }

  openNew() {
    if (this.isOpen("new")) return this.close();
    this.#show("new");
    this.classes.read();
  }

  /** @param {string} name */
  async openEdit(name) {
    if (this.isOpen("edit", name)) return this.close();
    this.#show("edit", name);
    this.classes.read();
    if (this.edit?.stored.name === name && this.edit.draft.dirty()) return;
    this.edit = null;
    try {
      this.#stored(await api("GET", `${this.path}/${name}`));
    } catch (error) {
      this.close();
      this.#say({ words: /** @type {Error} */ (error).message, bad: true });
    }
    this.changed();
  }

  /** @param {string} name */
  openDelete(name) {
    if (this.isOpen("delete", name)) return this.close();
    this.row.reset();
    this.#show("delete", name);
  }

  close() {
    this.open = { form: "", name: "" };
    this.changed();
    this.focus.restore();
  }

  async make() {
    const answer = await this.draft.send("POST", this.path, newBody(this.draft), { taken: "name" });
    if (!answer) return;
    this.draft.reset(shownValues({}));
    this.trial.forget();
    this.close();
    this.#say({ words: `${answer.data.name} is made, and listed within seconds.` });
    await this.sources.polling.read();
  }

  async save() {
    if (!this.edit) return;
    const { draft, trial, etag, stored } = this.edit;
    const { name } = stored;
    const body = changes(draft);
    const before = changes(draft, "initial");
    const answer = await draft.send("PATCH", `${this.path}/${name}`, body, { etag });
    if (!answer) return draft.status === 412 ? this.#meanwhile(name) : undefined;
    trial.forget();
    this.edit = null;
    this.close();
    this.#say({ words: `${name} is changed: ${answer.data.changed.join("; ") || "it was so already"}.`, undo: () => this.#back(name, before) });
    await this.sources.polling.read();
  }

  /** Somebody else was first: their values where nothing was typed, and what was typed stays. @param {string} name */
  async #meanwhile(name) {
    try {
      const { data, etag } = await api("GET", `${this.path}/${name}`);
      if (!this.edit) return;
      Object.assign(this.edit, { stored: data, etag });
      this.edit.draft.rebase(shownValues(data));
      this.edit.draft.problem = "Somebody else changed this meanwhile. What they set is shown now, except where you typed: save again to keep yours.";
    } catch {
      // What the API said of it stays.
    }
    this.changed();
  }

  /** Takes a change back. @param {string} name @param {object} before */
  async #back(name, before) {
    const { data } = await api("PATCH", `${this.path}/${name}`, { body: before });
    this.#say({ words: `${name} is as it was: ${data.changed.join("; ")}.` });
  }

  /** @param {Source} source */
  pause({ name, paused, replicas }) {
    return this.#inRow(name, async () => {
      await api("PATCH", `${this.path}/${name}`, { body: { paused: !paused } });
      const stay = replicas ? `; its ${plural(replicas, "replica")} ${replicas === 1 ? "stays as it is" : "stay as they are"}` : "";
      this.#say({ words: paused ? `${name} is followed again.` : `${name} is paused: it is not followed${stay}.` });
    });
  }

  /** @param {string} name */
  resync(name) {
    return this.#inRow(name, async () => {
      const { data } = await api("POST", `${this.path}/${name}/resync`);
      if (!data.listed) return this.#say({ words: `${name} was not listed within 3 s: it does not answer, or no conductor leads.`, bad: true });
      const entries = data.last_list?.entries;
      this.#say(entries == null ? { words: `${name} was asked, and did not answer: ${data.reason}`, bad: true } : { words: `${name} was listed: ${plural(entries, "replica")}.` });
    });
  }

  /** @param {string} name */
  async remove(name) {
    if (!(await this.row.send("DELETE", `${this.path}/${name}`))) return;
    const left = this.sources.of(name)?.replicas ?? 0;
    this.close();
    this.#say({ words: `${name} is deleted.${left ? ` ${plural(left, "replica")} of it ${left === 1 ? "is" : "are"} people's now.` : ""}` });
    await this.sources.polling.read();
    this.sources.moved();
    document.getElementById("add-source")?.focus();
  }

  async undo() {
    const back = this.done?.undo;
    if (!back) return;
    await this.#inRow("", back);
  }

  /** @param {string} name @param {() => Promise<void>} act */
  async #inRow(name, act) {
    if (this.busy) return;
    this.busy = name || "undo";
    this.done = null;
    this.changed();
    try {
      await act();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.#say({ words: error.message, bad: true });
    }
    this.busy = "";
    await this.sources.polling.read();
  }

  /** @param {{words: string, bad?: boolean, undo?: () => Promise<void>}} done */
  #say(done) {
    this.done = { ...done, until: performance.now() + UNDO_FOR_MS };
    if (done.undo) setTimeout(this.changed, UNDO_FOR_MS + 50);
    this.changed();
  }

  /** @param {{data: any, etag: string | null}} answer */
  #stored({ data, etag }) {
    const draft = new Draft("edit-source", shownValues(data), this.changed, fieldOf);
    this.edit = { draft, stored: data, etag, trial: new SourceTrial(this.fleet, draft, () => merged(settingsOf(this.edit?.stored ?? data), changes(draft))) };
  }

  /** @param {string} form @param {string} [name] */
  #show(form, name = "") {
    this.focus.remember();
    this.done = null;
    this.open = { form, name };
    this.changed();
  }
}
