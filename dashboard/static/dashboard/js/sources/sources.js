/** Sources of a fleet's replicas (service discovery), read from the API every few seconds. */
import { Polling } from "../live/polling.js";

/**
 * @typedef {{name: string, kind: string, state: "waiting" | "followed" | "frozen" | "failing" | "paused", reason: string, since: string, paused: boolean,
 *   frozen_since: string | null, replicas: number, frozen: number, oldest_missing_s: number | null,
 *   last_list: {age_s: number, entries: number | null, left_alone: string[], refused: Record<string, string>} | null,
 *   file?: {path: string}, dns?: {name: string, type: string}, kubernetes?: {namespace: string, service: string}, lease?: {allow: string[]}}} Source
 */

export class Sources {
  /** @param {string} fleet @param {() => void} changed @param {() => void} moved what replicas say of their sources is to be read again */
  constructor(fleet, changed, moved) {
    this.polling = new Polling(`/fleets/${fleet}/sources`, () => this.#read(), true);
    this.changed = changed;
    this.moved = moved;
    this.known = "";
  }

  start() {
    this.polling.start();
  }

  /** @returns {Source[]} */
  get list() {
    return this.polling.list ?? [];
  }

  /** @param {string} name */
  of(name) {
    return this.list.find((source) => source.name === name);
  }

  #read() {
    const known = JSON.stringify(this.list.map(({ name, state, replicas, frozen }) => [name, state, replicas, frozen]));
    if (this.known && known !== this.known) this.moved();
    this.known = known;
    this.changed();
  }
}

/** Seconds since then. @param {string} when */
export function since(when) {
  return Math.max((Date.now() - new Date(when).getTime()) / 1000, 0);
}
