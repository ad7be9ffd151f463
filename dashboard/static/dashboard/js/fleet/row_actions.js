/** Draining, activating and weighing one replica: asks the API, keeps what it answered for the row to show. */
import { api } from "../api.js";
import { applied } from "./applied.js";

export const UNDO_FOR_MS = 10_000;
const RESULT_FOR_MS = 20_000;
/** A confirmed change is shown at once, and until the frames, a second apart, have caught up. */
const CATCH_UP_MS = 4_000;

/**
 * `confirmed`: admin state that the API has confirmed and frames may not show yet.
 * @typedef {{busy: boolean, result: import("./applied.js").Outcome | null, problem: string, undoUntil: number, confirmed: string, confirmedUntil: number}} RowState
 */

/** @type {RowState} */
const IDLE = { busy: false, result: null, problem: "", undoUntil: 0, confirmed: "", confirmedUntil: 0 };

export class RowActions {
  /** @param {string} fleet @param {() => void} changed */
  constructor(fleet, changed) {
    this.fleet = fleet;
    this.changed = changed;
    /** @type {Map<string, RowState>} */
    this.rows = new Map();
    /** The newest request of any row, to be shown as a command. @type {{path: string, body: object} | null} */
    this.last = null;
  }

  /** @param {string} replica @returns {RowState} */
  of(replica) {
    return this.rows.get(replica) ?? IDLE;
  }

  /** The admin state to show: what the API confirmed last, else what the frame says. @param {import("../frames.js").ReplicaLive} replica */
  adminState({ name, admin_state }) {
    const { confirmed, confirmedUntil } = this.of(name);
    return confirmed && performance.now() < confirmedUntil ? confirmed : admin_state;
  }

  /** @param {string} replica */
  drain(replica) {
    return this.#setAdminState(replica, "draining", UNDO_FOR_MS);
  }

  /** @param {string} replica */
  activate(replica) {
    return this.#setAdminState(replica, "active", 0);
  }

  /** Answers whether it was accepted. @param {string} replica @param {number | string | null} weight null: the hardware class's */
  weigh(replica, weight) {
    return this.#change(replica, { weight }, (answer) => applied(answer, `revision ${answer.revision}`));
  }

  /** @param {string} replica @param {string} state @param {number} undoFor */
  async #setAdminState(replica, state, undoFor) {
    const done = await this.#change(replica, { admin_state: state }, (answer) => applied(answer, state));
    if (!done) return;
    const now = performance.now();
    this.#put(replica, { undoUntil: undoFor && now + undoFor, confirmed: state, confirmedUntil: now + CATCH_UP_MS });
    if (undoFor) setTimeout(this.changed, undoFor + 50);
  }

  /** @param {string} replica @param {object} body @param {(answer: any) => import("./applied.js").Outcome} told */
  async #change(replica, body, told) {
    const path = `/fleets/${this.fleet}/replicas/${replica}`;
    this.last = { path, body };
    this.#put(replica, { busy: true, result: null, problem: "" });
    try {
      const { data } = await api("PATCH", path, { body });
      this.#put(replica, { busy: false, result: told(data) });
      this.#forget(replica);
      return true;
    } catch (error) {
      this.#put(replica, { busy: false, problem: /** @type {Error} */ (error).message });
      return false;
    }
  }

  /** @param {string} replica @param {Partial<RowState>} change */
  #put(replica, change) {
    this.rows.set(replica, { ...this.of(replica), ...change });
    this.changed();
  }

  /** @param {string} replica */
  #forget(replica) {
    const { result } = this.of(replica);
    setTimeout(() => this.of(replica).result === result && this.#put(replica, { result: null }), RESULT_FOR_MS);
  }
}
