/** Dialog of an accelerator's row that drains all replicas on it, or on its host, and says what is left there. */
import { api, curl } from "../api.js";
import { Copyable } from "../components/copyable.js";
import { Left, Plan, together } from "../components/moving.js";
import { plural } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";

const PATH = "/drains";
const READ_EVERY_MS = 1_000;

/**
 * @typedef {{fleet: string, replica: string, admin_state: string, move: boolean, in_flight: number | null,
 *   moving: import("../frames.js").MovingLive | null, safe_to_stop: boolean | null}} DrainedReplica
 */

/** State of the dialog: where, what is there, and whether streams are moved. */
export class Drain {
  /** @param {string} accelerator @param {() => void} changed */
  constructor(accelerator, changed) {
    this.accelerator = accelerator;
    this.changed = changed;
    this.wholeHost = false;
    this.move = true;
    /** Null: not read yet. @type {{replicas: DrainedReplica[], safe_to_stop: boolean | null} | null} */
    this.found = null;
    this.problem = "";
    this.busy = false;
    /** Token with which what was refused is done. */
    this.confirm = "";
    this.timer = 0;
  }

  /** "node1" of "node1/gpu0"; empty: its name has no host */
  get host() {
    return this.accelerator.includes("/") ? this.accelerator.split("/")[0] : "";
  }

  get place() {
    return this.wholeHost ? { host: this.host } : { accelerator: this.accelerator };
  }

  /** Of those that are there. @param {string} state */
  number(state) {
    return this.found?.replicas.filter((one) => one.admin_state === state).length ?? 0;
  }

  /** Read now, and again until {@link stop}. */
  async read() {
    clearTimeout(this.timer);
    const place = JSON.stringify(this.place);
    try {
      const { data } = await api("GET", `${PATH}?${new URLSearchParams(/** @type {Record<string, string>} */ (this.place))}`);
      if (place === JSON.stringify(this.place)) this.found = data;
    } catch (error) {
      if (!this.found) this.problem = /** @type {Error} */ (error).message;
    }
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.read(), READ_EVERY_MS);
    this.changed();
  }

  stop() {
    clearTimeout(this.timer);
  }

  /** @param {boolean} whole */
  choose(whole) {
    this.wholeHost = whole;
    this.found = null;
    this.problem = this.confirm = "";
    this.read();
  }

  /** What is sent. @param {boolean} ends */
  body(ends) {
    return { ...this.place, ...(ends ? { admin_state: "active" } : this.move && { move: true }) };
  }

  /** @param {boolean} ends whether the drain is undone */
  async send(ends) {
    this.busy = true;
    this.problem = "";
    this.changed();
    try {
      const { data } = await api("POST", PATH, { body: this.body(ends), confirm: ends ? "" : this.confirm });
      this.found = data;
      this.confirm = "";
    } catch (error) {
      const asked = /** @type {import("../api.js").ApiProblem} */ (error);
      this.problem = asked.message;
      this.confirm = asked.confirm;
    }
    this.busy = false;
    this.read();
  }
}

/** @param {{drain: Drain, close: () => void}} props */
export function DrainPlace({ drain, close }) {
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => {
    form.current?.querySelector("input")?.focus();
    drain.read();
    return () => drain.stop();
  }, []);
  const { found, busy, problem, host, accelerator, wholeHost } = drain;
  const active = drain.number("active");
  const draining = drain.number("draining");
  const submit = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), busy || drain.send(false));
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close();
  const where = (/** @type {boolean} */ whole, /** @type {string} */ words) => html`<label class="check"><input type="radio" name="place" checked=${wholeHost === whole} disabled=${busy} onChange=${() => drain.choose(whole)} />${words}</label>`;
  const starts = active > 0 || (draining > 0 && drain.move && found?.replicas.some((one) => one.admin_state === "draining" && !one.move));
  return html`<form ref=${form} class="edit in-row" aria-label=${`Drain ${accelerator}`} onSubmit=${submit} onKeyDown=${leave}>
    ${host && html`<fieldset class="choices"><legend>Drain all replicas on</legend>${where(false, `accelerator ${accelerator}`)}${where(true, `host ${host}`)}</fieldset>`}
    <label class="check"><input type="checkbox" checked=${drain.move} disabled=${busy} onChange=${(/** @type {any} */ event) => ((drain.move = event.target.checked), drain.changed())} />Move streams that can be continued</label>
    ${found ? html`<${Found} drain=${drain} />` : !problem && html`<p class="muted">Reading …</p>`}
    <div class="row">
      <button class="primary" disabled=${busy || !starts} aria-busy=${busy}>${active ? `Drain ${plural(active, "replica")}` : "Drain"}</button>
      ${draining > 0 && html`<button type="button" disabled=${busy} onClick=${() => drain.send(true)}>Activate ${plural(draining, "replica")}</button>`}
      <button type="button" onClick=${close}>Close</button>
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("POST", PATH, drain.body(false))} />
  </form>`;
}

/** What is there: what would be done with it, or what is left. @param {{drain: Drain}} props */
function Found({ drain }) {
  const { replicas, safe_to_stop: safe } = /** @type {NonNullable<Drain["found"]>} */ (drain.found);
  const active = replicas.filter((one) => one.admin_state === "active");
  const out = replicas.filter((one) => one.admin_state !== "active");
  const flying = (/** @type {DrainedReplica[]} */ some) => some.reduce((sum, one) => sum + (one.in_flight ?? 0), 0);
  const plan = together(active.map((one) => one.moving));
  const left = together(out.map((one) => one.moving));
  return html`<div>${replicas.map((one) => html`<div key=${`${one.fleet}/${one.replica}`}><a class="name" href=${`/fleets/${one.fleet}?search=${one.replica}`}>${one.fleet}/${one.replica}</a>${" "}
      <span class=${one.admin_state === "active" ? "muted" : `is-${one.admin_state}`}>${one.admin_state}</span>${" "}
      <span class="muted">· ${one.in_flight === null ? "no proxy reports" : `${one.in_flight} in flight`}</span>
      ${one.safe_to_stop && html`${" "}<span class="applied">safe to stop</span>`}</div>`)}</div>
    ${plan && flying(active) > 0 && html`<${Plan} moving=${plan} move=${drain.move} flying=${flying(active)} />`}
    ${!plan && flying(active) > 0 && html`<p>${plural(flying(active), "request")} in flight ${flying(active) === 1 ? "finishes" : "finish"} there.</p>`}
    ${out.length > 0 && html`<p class="row" role="status">${safe ? html`<span class="applied"><b>safe to stop</b>: nothing in flight, no new requests</span>` : html`<span class="is-draining">${plural(flying(out), "request")} still in flight</span>`}
      ${left && html`<${Left} moving=${left} />`}</p>`}`;
}
