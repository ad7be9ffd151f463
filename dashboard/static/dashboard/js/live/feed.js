/**
 * One WebSocket that reconnects: the initial message, then a frame a second. When it drops it comes back with
 * growing, jittered pauses; what was missed comes with the next initial message, so nothing is shown twice or left out.
 */

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 10_000;
const STALE_AFTER_MS = 3_000;
/** An open socket without messages may be half-open: the other end may have gone without a close. */
const SILENT_AFTER_MS = 15_000;
/** Frames are a second apart. More than this between two means that some were dropped for us: ask for history. */
const GAP_S = 5;
const WATCH_MS = 250;

/** The server ends each socket at some age. No failure: the next one is opened at once, and the numbers stay live. */
const TOO_OLD = 4408;
const ENDED = /** @type {Record<number, string>} */ ({ 4401: "signed out", 4403: "signed out", 4404: "removed" });

/**
 * `connecting`: nothing came yet. `waiting`: connected, nothing measured yet. `live`. `stale`: old, and how old
 * is in `ageMs()`. @typedef {"connecting" | "waiting" | "live" | "stale"} Liveness
 */

export class Feed {
  /**
   * @param {string} path
   * @param {{initial: (message: import("../frames.js").InitialMessage) => void, frame: (frame: any) => void,
   *   change: () => void}} listener `change`: liveness or `reason` is another one now.
   */
  constructor(path, listener) {
    this.url = new URL(path, location.href.replace(/^http/, "ws")).href;
    this.listener = listener;
    /** @type {Liveness} */
    this.liveness = "connecting";
    /** Why it is stale, in words. */
    this.reason = "";
    /** Why it will not reconnect: "signed out" or "removed". */
    this.ended = "";
    /** No new data because Redis does not respond or is another installation's, as the server reports. */
    this.redisAway = false;
    this.failures = 0;
    this.seenAt = 0; // performance.now() at which the newest frame was fresh; 0: none yet
    this.frameAt = 0; // the newest frame's own time
    this.heardAt = 0;
    this.timer = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
  }

  start() {
    this.#open();
    setInterval(() => this.#watch(), WATCH_MS);
    addEventListener("online", () => this.#now());
    document.addEventListener("visibilitychange", () => document.hidden || this.#now());
  }

  /** Age of what is shown; null before the first frame. */
  ageMs() {
    return this.seenAt ? performance.now() - this.seenAt : null;
  }

  #now() {
    if (!this.socket && !this.ended) this.#open();
  }

  #open() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.heardAt = performance.now();
    socket.onmessage = (event) => socket === this.socket && this.#message(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.socket && this.#closed(event.code);
  }

  /** @param {number} code */
  #closed(code) {
    this.socket = null;
    this.ended = ENDED[code] ?? "";
    if (code === TOO_OLD) {
      this.#open();
    } else if (!this.ended) {
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures++);
      this.timer = setTimeout(() => this.#open(), pause * (0.5 + Math.random() / 2));
    }
    this.#watch();
  }

  #reconnect() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.#open();
  }

  /** @param {any} message */
  #message(message) {
    this.heardAt = performance.now();
    if (message.type === "hello") {
      this.failures = 0;
      if (message.frame) this.#fresh(message.frame.at, (message.age_s ?? 0) * 1000);
      this.listener.initial(message);
    } else if (message.type === "frame" && message.frame.at > this.frameAt) {
      const gap = this.frameAt ? message.frame.at - this.frameAt : 0;
      this.#fresh(message.frame.at, 0);
      this.listener.frame(message.frame);
      if (gap > GAP_S) this.#reconnect();
    } else if (message.type === "alerts") {
      document.dispatchEvent(new CustomEvent("switchyard:alerts", { detail: message }));
    } else if (message.type === "silence") {
      this.redisAway = !message.redis;
    }
    this.#watch();
  }

  /** @param {number} at @param {number} ageMs */
  #fresh(at, ageMs) {
    this.redisAway = false;
    this.frameAt = at;
    this.seenAt = performance.now() - ageMs;
  }

  #watch() {
    if (this.socket && performance.now() - this.heardAt > SILENT_AFTER_MS) this.#reconnect();
    const [liveness, reason] = this.#judge();
    if (liveness === this.liveness && reason === this.reason) return;
    this.liveness = liveness;
    this.reason = reason;
    this.listener.change();
  }

  /** @returns {[Liveness, string]} */
  #judge() {
    const open = this.socket?.readyState === WebSocket.OPEN;
    const age = this.ageMs();
    if (this.ended) return ["stale", this.ended];
    if (age === null) return [open ? "waiting" : "connecting", ""];
    if (!this.socket || this.failures) return ["stale", "reconnecting"];
    if (age <= STALE_AFTER_MS) return ["live", ""];
    if (this.redisAway) return ["stale", "Redis cannot be used"];
    return ["stale", open ? "connected, but no new data comes" : "reconnecting"];
  }
}
