/** Live traffic of each client key, from a frame a second. */
import { showStalenessBadge } from "../live/staleness_badge.js";
import { Feed } from "../live/feed.js";

/** @typedef {import("../frames.js").ClientKeyLive} ClientKeyLive */

const UNUSED = {
  rps: 0, limited_per_s: 0, in_flight: 0, requests: 0, tokens: 0, at_limit: [],
  errors: 0, p50_s: null, p95_s: null, p99_s: null, first_token_p95_s: null,
};

export class Traffic {
  /** @type {import("../frames.js").ClientKeysFrame | null} */
  frame = null;
  /** @type {Map<number, ClientKeyLive>} */
  #keys = new Map();

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.feed = new Feed("/ws/client-keys", {
      initial: ({ frame }) => frame && this.#take(frame),
      frame: (frame) => this.#take(frame),
      change: () => (badge(), changed()),
    });
    const badge = showStalenessBadge(this.feed);
  }

  start() {
    this.feed.start();
  }

  /** Null: nothing has been measured. @param {{id: number, name: string}} one @returns {ClientKeyLive | null} */
  of({ id, name }) {
    return this.frame && (this.#keys.get(id) ?? { id, name, ...UNUSED });
  }

  /** @param {import("../frames.js").ClientKeysFrame} frame */
  #take(frame) {
    this.frame = frame;
    this.#keys = new Map(frame.keys.map((one) => [one.id, one]));
    this.changed();
  }
}
