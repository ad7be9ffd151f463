/** Newest events, polled from the API: every few seconds, and at once when a frame shows a change. */
import { api } from "../api.js";

const PERIOD_MS = 5_000;
const KEEP = 50;

/**
 * @typedef {{id: number, kind: string, state: string, fleet: string | null, replica: string | null, text: string,
 *   actor: string, at: string}} Event
 */

export class Events {
  /** @param {string | null} fleet @param {() => void} changed */
  constructor(fleet, changed) {
    const query = new URLSearchParams({ page_size: String(KEEP) });
    if (fleet) query.set("fleet", fleet);
    this.path = `/events?${query}`;
    this.changed = changed;
    /** @type {Event[] | null} */
    this.list = null;
    /** @type {string} */
    this.problem = "";
    this.version = 0;
    this.signature = "";
    this.busy = false;
  }

  start() {
    this.read();
    setInterval(() => document.hidden || this.read(), PERIOD_MS);
  }

  /** Reads now when `signature` (anything that changes when events are due) differs from the last one. @param {string} signature */
  hint(signature) {
    if (signature === this.signature) return;
    this.signature = signature;
    this.read();
  }

  async read() {
    if (this.busy) return;
    this.busy = true;
    try {
      const { data } = await api("GET", this.path);
      this.list = data.results;
      this.problem = "";
    } catch (error) {
      this.problem = /** @type {Error} */ (error).message;
    }
    this.busy = false;
    this.version++;
    this.changed();
  }
}
