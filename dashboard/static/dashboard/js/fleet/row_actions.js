/** Actions of a replica's row (drain, activate, weight, change, remove): asks the API, keeps its answer for the row,
 * and for a while how to undo it. */
import { api } from "../api.js";
import { settingsOf } from "../edit/replica_fields.js";
import { rolloutStatus } from "./rollout_status.js";

export const UNDO_FOR_MS = 10_000;
const RESULT_FOR_MS = 20_000;
/** A confirmed change is shown at once, and until the frames, a second apart, have caught up. */
const CATCH_UP_MS = 4_000;

/**
 * `confirmed`: admin state that the API has confirmed and frames may not show yet. `undo`: the change that
 * takes the last one back, until `undoUntil`; `undoConfirm`: the token with which it is accepted.
 * @typedef {{busy: boolean, result: import("./rollout_status.js").Outcome | null, problem: string, undo: Record<string, unknown> | null,
 *   undoUntil: number, undoConfirm: string, confirmed: string, confirmedUntil: number}} RowState
 */

/** @type {RowState} */
const IDLE = { busy: false, result: null, problem: "", undo: null, undoUntil: 0, undoConfirm: "", confirmed: "", confirmedUntil: 0 };

export class RowActions {
  /**
   * @param {string} fleet @param {() => void} changed @param {(name: string) => import("../edit/replica_fields.js").ReplicaSettings | undefined} settings
   * @param {(settings: import("../edit/replica_fields.js").ReplicaSettings) => void} learned what a change answered, before any frame says it
   */
  constructor(fleet, changed, settings, learned) {
    this.fleet = fleet;
    this.settings = settings;
    this.learned = learned;
    this.changed = changed;
    /** @type {Map<string, RowState>} */
    this.rows = new Map();
    /** The newest request of any row, to be shown as a command. @type {{method: string, path: string, body?: object} | null} */
    this.last = null;
    /** The replica removed last. @type {{settings: import("../edit/replica_fields.js").ReplicaSettings, until: number, problem: string, confirm: string} | null} */
    this.removed = null;
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

  /** Answers whether it was accepted. @param {string} replica @param {boolean} [move] streams that can be continued */
  drain(replica, move = false) {
    return this.#change(replica, { admin_state: "draining", ...(move && { move }) }, { admin_state: "active" }, () => "draining");
  }

  /** Of one that is taken out: whether its streams are moved. @param {string} replica @param {boolean} move */
  move(replica, move) {
    return this.#change(replica, { move }, null, () => (move ? "moving streams" : "moving none"));
  }

  /** @param {import("../frames.js").ReplicaLive} replica */
  activate(replica) {
    return this.#change(replica.name, { admin_state: "active" }, { admin_state: this.adminState(replica) }, () => "active");
  }

  /** Answers whether it was accepted. @param {string} replica @param {number | string | null} weight null: the hardware class's */
  weigh(replica, weight) {
    const before = this.settings(replica);
    return this.#change(replica, { weight }, before && { weight: before.weight }, (answer) => `revision ${answer.revision}`);
  }

  /** A change that a form has sent. @param {string} replica @param {any} answer @param {Record<string, unknown>} before what it replaced */
  saved(replica, answer, before) {
    this.#put(replica, { problem: "" });
    this.#done(replica, answer, before, "saved");
  }

  /** Takes the last change back. @param {string} replica */
  undo(replica) {
    const { undo, undoConfirm } = this.of(replica);
    return undo && this.#change(replica, undo, null, () => "undone", undoConfirm);
  }

  /** Answers whether it was accepted. @param {string} replica */
  async remove(replica) {
    const settings = this.settings(replica);
    const path = `/fleets/${this.fleet}/replicas/${replica}`;
    this.last = { method: "DELETE", path };
    this.#put(replica, { busy: true, problem: "" });
    try {
      await api("DELETE", path);
    } catch (error) {
      this.#put(replica, { busy: false, problem: /** @type {Error} */ (error).message });
      return false;
    }
    this.rows.delete(replica);
    if (settings) this.removed = { settings, until: this.#undoable(), problem: "", confirm: "" };
    this.changed();
    return true;
  }

  /** Registers the removed one again, as it was; it is then checking until a probe passes. */
  async bringBack() {
    if (!this.removed) return;
    const path = `/fleets/${this.fleet}/replicas`;
    const { confirm } = this.removed;
    const body = settingsOf(this.removed.settings);
    this.last = { method: "POST", path, body };
    try {
      await api("POST", `${path}?trial=no`, { body, confirm });
      this.removed = null;
    } catch (error) {
      const asked = /** @type {import("../api.js").ApiProblem} */ (error);
      const until = asked.confirm ? this.#undoable() : this.removed.until;
      this.removed = { ...this.removed, until, problem: asked.message, confirm: asked.confirm };
    }
    this.changed();
  }

  /** Until when what is done now can be undone; the page is drawn anew then. */
  #undoable() {
    setTimeout(this.changed, UNDO_FOR_MS + 50);
    return performance.now() + UNDO_FOR_MS;
  }

  /**
   * @param {string} replica @param {Record<string, unknown>} body @param {Record<string, unknown> | null | undefined} before
   * @param {(answer: any) => string} what it made, in words
   * @param {string} [confirm] token with which it is accepted
   */
  async #change(replica, body, before, what, confirm = "") {
    const path = `/fleets/${this.fleet}/replicas/${replica}`;
    this.last = { method: "PATCH", path, body };
    this.#put(replica, { busy: true, result: null, problem: "", undo: null });
    try {
      const { data } = await api("PATCH", path, { body, confirm });
      this.#done(replica, data, before, what(data));
      return true;
    } catch (error) {
      const asked = /** @type {import("../api.js").ApiProblem} */ (error);
      this.#put(replica, { busy: false, problem: asked.message });
      // An undo that must be confirmed is offered once more, with what confirms it.
      if (asked.confirm && !before) this.#put(replica, { undo: body, undoUntil: this.#undoable(), undoConfirm: asked.confirm });
      return false;
    }
  }

  /** @param {string} replica @param {any} answer @param {Record<string, unknown> | null | undefined} before @param {string} what */
  #done(replica, answer, before, what) {
    this.learned(answer);
    const undo = answer.changed.length && before ? before : null;
    this.#put(replica, { busy: false, result: rolloutStatus(answer, what), undo, undoUntil: undo ? this.#undoable() : 0, undoConfirm: "" });
    if (answer.admin_state) this.#put(replica, { confirmed: answer.admin_state, confirmedUntil: performance.now() + CATCH_UP_MS });
    this.#forget(replica);
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
