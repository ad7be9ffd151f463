/** State and actions of the client keys page: create, change, revoke. */
import { api } from "../api.js";
import { Draft } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";
import { allPages } from "../live/polling.js";
import { plural } from "../format.js";
import { limitsOf, limitValues } from "./limits.js";

export const PATH = "/client-keys";

/**
 * `fleets`: null: every fleet.
 * @typedef {{id: number, name: string, prefix: string, fleets: string[] | null, created_by: string, created_at: string,
 *   revoked_by: string | null, revoked_at: string | null} & import("./limits.js").Limits} ClientKey
 * @typedef {{live: number, applied: number, refused: number, waited_ms: number}} Workers
 * @typedef {ClientKey & {key: string, workers: Workers, effect?: string}} Made
 */

/** Field of the form that stands for a fleet. @param {string} name */
export function fleetField(name) {
  return `fleet ${name}`;
}

/** @param {ClientKey | null} one null: a new key */
function initial(one) {
  /** @type {import("../edit/draft.js").Values} */
  const values = { name: one?.name ?? "", fleets: "", every: one ? one.fleets === null : true, ...limitValues(one) };
  for (const fleet of one?.fleets ?? []) values[fleetField(fleet)] = true;
  return values;
}

export class KeysModel {
  /**
   * @param {import("../live/polling.js").Polling} polling @param {import("../edit/panel_switch.js").PanelSwitch} panels
   * @param {() => void} changed @param {() => void} written called after a key was made or revoked
   */
  constructor(polling, panels, changed, written) {
    this.written = written;
    this.polling = polling;
    this.panels = panels;
    this.changed = changed;
    this.draft = new Draft("new-client-key", initial(null), changed);
    /** Of the row that is open. @type {Draft | null} */
    this.row = null;
    /** The key of that row, its version, and whether it is being changed or revoked. */
    this.editing = 0;
    this.revoking = false;
    /** @type {string | null} */
    this.etag = null;
    /** Of a key that was just made: with the key itself. @type {Made | null} */
    this.made = null;
    this.done = "";
    /** To choose from; null: not read yet. @type {{name: string, protocol: string}[] | null} */
    this.fleets = null;
    this.fleetsRead = false;
    /** Read on demand. @type {ClientKey[] | null} */
    this.revoked = null;
    this.revokedProblem = "";
    this.focus = new FocusRestore();
  }

  async readFleets() {
    if (this.fleetsRead) return;
    this.fleetsRead = true;
    try {
      this.fleets = await allPages("/fleets");
    } catch {
      this.fleetsRead = false; // tried again with the next form
      this.fleets ??= [];
    }
    this.changed();
  }

  /** What a form says. @param {Draft} draft */
  #whole(draft) {
    const chosen = Object.keys(draft.values).filter((field) => field.startsWith(fleetField("")) && draft.values[field]);
    const fleets = draft.values.every ? null : chosen.map((field) => field.slice(fleetField("").length)).sort();
    return { name: draft.text("name"), fleets, ...limitsOf(draft) };
  }

  /** A new key, without what it has anyway. @param {Draft} draft */
  body(draft) {
    const { name, fleets, ...limits } = this.#whole(draft);
    const set = Object.entries(limits).filter(([field, value]) => value !== null && draft.touched(field));
    return { name, fleets, ...Object.fromEntries(set) };
  }

  /** Only changed fields, so that changes by others stay. @param {Draft} draft */
  changes(draft) {
    const of = (/** @type {string} */ field) => (field === "every" || field.startsWith(fleetField("")) ? "fleets" : field);
    const touched = new Set(Object.keys(draft.values).filter((field) => draft.touched(field)).map(of));
    return Object.fromEntries(Object.entries(this.#whole(draft)).filter(([field]) => touched.has(field)));
  }

  /** A key for no fleet is useless. @param {Draft} draft */
  #chosen(draft) {
    if (this.#whole(draft).fleets?.length !== 0) return true;
    draft.wrong("fleets", "Choose a fleet, or let it open every fleet.");
    return false;
  }

  async create() {
    if (!this.#chosen(this.draft)) return;
    const answer = await this.draft.send("POST", PATH, this.body(this.draft), { taken: "name" });
    if (!answer) return;
    this.draft.reset();
    this.made = answer.data;
    this.done = "";
    this.panels.close(); // first, for what is drawn next takes the focus
    this.#show([answer.data]);
  }

  /** Remove the key itself from the page. */
  forget() {
    this.made = null;
    this.changed();
    this.panels.focusFirst();
  }

  /** @param {ClientKey} one @param {boolean} revoking */
  open(one, revoking) {
    this.focus.remember();
    this.row = new Draft(`client-key-${one.id}`, initial(one), this.changed);
    this.editing = one.id;
    this.revoking = revoking;
    this.done = "";
    this.etag = null;
    if (!revoking) this.#readVersion();
    this.readFleets();
    this.changed();
  }

  /** Of the key in the open row: its values now, where nothing was typed, and the version that saving is to replace. */
  async #readVersion() {
    const { row, editing } = this;
    try {
      const { data, etag } = await api("GET", `${PATH}/${editing}`);
      if (row !== this.row || editing !== this.editing) return;
      this.etag = etag;
      row?.rebase(initial(data));
    } catch {
      // Saving says what is wrong.
    }
  }

  close() {
    this.editing = 0;
    this.changed();
    this.focus.restore();
  }

  async save() {
    const { row, editing } = this;
    if (!row || !this.#chosen(row)) return;
    const answer = await row.send("PATCH", `${PATH}/${editing}`, this.changes(row), { etag: this.etag, taken: "name" });
    if (!answer) return row.status === 412 ? this.#meanwhile(row) : undefined;
    const { name, changed, workers, not_published } = answer.data;
    this.done = changed.length ? `${name}: ${changed.join("; ")} · ${reach(workers, not_published)}` : `${name}: nothing to change.`;
    this.#show([answer.data]);
    this.close();
  }

  /** Somebody else was first: their values where nothing was typed. @param {Draft} row */
  async #meanwhile(row) {
    await this.#readVersion();
    row.problem = "Somebody else changed this meanwhile. What they set is shown now, except where you typed: save again to keep yours.";
    this.changed();
  }

  /** @param {ClientKey} one */
  async revoke(one) {
    const answer = await this.row?.send("DELETE", `${PATH}/${one.id}`);
    if (!answer) return;
    this.editing = 0;
    if (this.made?.id === one.id) this.made = null;
    this.done = `${one.name} is revoked · ${reach(answer.data.workers, answer.data.not_published)}`;
    this.#show([], one.id);
    if (answer.data.effect) this.done += `. ${answer.data.effect}`;
    if (this.revoked) await this.readRevoked();
    this.panels.focusFirst();
  }

  /** At once, and then as the server has it. @param {ClientKey[]} rows new or changed @param {number} [gone] */
  #show(rows, gone = 0) {
    const others = (this.polling.list ?? []).filter((one) => one.id !== gone && rows.every((row) => row.id !== one.id));
    this.polling.list = [...others, ...rows].sort((one, other) => (one.name < other.name ? -1 : 1));
    this.polling.read();
    this.written();
    this.changed();
  }

  async readRevoked() {
    try {
      this.revoked = await allPages(`${PATH}?revoked=yes`);
      this.revokedProblem = "";
    } catch (error) {
      this.revokedProblem = /** @type {Error} */ (error).message;
    }
    this.changed();
  }
}

/** @param {Workers} workers @param {string} [notPublished] why proxies do not get it now */
export function reach({ live, applied, waited_ms }, notPublished) {
  if (notPublished) return notPublished;
  if (!live) return "no proxy is running";
  const counted = `${applied} of ${plural(live, "proxy worker")} in ${Math.round(waited_ms)} ms`;
  return applied < live ? `${counted}, the rest within a second` : counted;
}
