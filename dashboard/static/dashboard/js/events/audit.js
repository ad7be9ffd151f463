/** Audit entries: what one write changed, read on demand and kept. */
import { api } from "../api.js";

/**
 * @typedef {{id: number, at: string, actor: string, origin: string, verb: string, target: string,
 *   changes: {field: string, before: unknown, after: unknown}[]}} Entry
 * @typedef {{busy: boolean, problem: string, entries: Entry[] | null}} Reading
 */

/** @type {Reading} */
const CLOSED = { busy: false, problem: "", entries: null };

export class Audit {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** By write. @type {Map<string, Reading>} */
    this.readings = new Map();
    /** Numbers of events whose details are open. @type {Set<number>} */
    this.open = new Set();
  }

  /** @param {string} write */
  of(write) {
    return this.readings.get(write) ?? CLOSED;
  }

  /** @param {import("./event_log.js").Event} event */
  toggle({ id, write }) {
    if (this.open.delete(id)) return this.changed();
    this.open.add(id);
    if (write && !this.of(write).entries) return this.read(write);
    return this.changed();
  }

  /** @param {string} write */
  async read(write) {
    this.#put(write, { busy: true, problem: "", entries: null });
    try {
      const { data } = await api("GET", `/audit?${new URLSearchParams({ write, page_size: "1000" })}`);
      this.#put(write, { busy: false, problem: "", entries: data.results.reverse() });
    } catch (error) {
      this.#put(write, { busy: false, problem: /** @type {Error} */ (error).message, entries: null });
    }
  }

  /** @param {string} write @param {Reading} reading */
  #put(write, reading) {
    this.readings.set(write, reading);
    this.changed();
  }
}

const DONE = /** @type {Record<string, string>} */ ({
  create: "created",
  register: "registered",
  update: "changed",
  change: "changed",
  delete: "deleted",
  restore: "restored an earlier",
  revoke: "revoked",
  change_password: "chose a new password for",
});
const THINGS = /** @type {Record<string, string>} */ ({ policies: "policy of", hardware: "hardware class", accounts: "account" });

/** "changed replica" of `replicas.update`. @param {string} verb */
export function verbText(verb) {
  const [things, action] = verb.split(".", 2);
  return `${DONE[action] ?? action?.replaceAll("_", " ") ?? ""} ${THINGS[things] ?? things.replace(/s$/, "").replaceAll("_", " ")}`.trim();
}

/** @param {string} origin */
export function originText(origin) {
  if (origin === "session") return "on a page";
  if (origin === "server") return "by a command or process on the server";
  if (origin.startsWith("token ")) return `through the API, token ${origin.slice(6)}…`;
  return origin || "origin unknown";
}

/** @param {unknown} value */
export function shown(value) {
  if (value === null || value === undefined) return "not set";
  if (value === "") return "empty";
  return typeof value === "string" ? value : JSON.stringify(value);
}
