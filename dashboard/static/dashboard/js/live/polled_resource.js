/**
 * Polled resource: one GET of the API, repeated, for pages that must work without a WebSocket.
 * Looks like a Feed to whoever shows how old things are.
 */
import { api, ApiProblem } from "../api.js";

const STALE_FACTOR = 3;

export class PolledResource {
  /** @type {any} The last answer; null: none yet. */
  data = null;
  /** @type {import("./feed.js").Liveness} */
  liveness = "connecting";
  reason = "";
  ended = "";
  failures = 0;
  #seenAt = 0;
  #timer = 0;
  #asking = false;

  /** @param {string} path below /api/v1 @param {number} everyMs @param {() => void} changed */
  constructor(path, everyMs, changed) {
    this.path = path;
    this.everyMs = everyMs;
    this.changed = changed;
  }

  start() {
    this.#ask();
    setInterval(() => this.#watch(), 250);
    addEventListener("online", () => this.#ask());
    document.addEventListener("visibilitychange", () => document.hidden || this.#ask());
  }

  /** Now, and not when its time comes. */
  again() {
    this.#ask();
  }

  /** Age of what is shown; null before the first answer. */
  ageMs() {
    return this.#seenAt ? performance.now() - this.#seenAt : null;
  }

  async #ask() {
    if (this.#asking || this.ended) return;
    clearTimeout(this.#timer);
    this.#asking = true;
    const asked = performance.now();
    try {
      this.data = (await api("GET", this.path)).data;
      // By the time of asking: what is answered late is old already.
      this.#seenAt = asked;
      this.failures = 0;
      this.#become("live", "");
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.failures += 1;
      if (error.status === 401 || error.status === 403) this.ended = "signed out";
      this.#become(this.data ? "stale" : "connecting", error.message);
    } finally {
      this.#asking = false;
    }
    // A hidden page asks nothing; when it is shown again it asks at once.
    if (!document.hidden) this.#timer = setTimeout(() => this.#ask(), this.everyMs);
    this.changed();
  }

  #watch() {
    const old = this.ageMs();
    if (this.liveness === "live" && old !== null && old > STALE_FACTOR * this.everyMs) {
      this.#become("stale", "asking again");
      this.changed();
    }
  }

  /** @param {import("./feed.js").Liveness} liveness @param {string} reason */
  #become(liveness, reason) {
    this.liveness = liveness;
    this.reason = reason;
  }
}
