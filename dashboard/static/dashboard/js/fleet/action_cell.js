/** Drain, undo or activate; beside it how far a drain has come, and what the last change did. */
import { curl } from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";

/**
 * @param {{replica: import("../frames.js").ReplicaLive, frame: import("../frames.js").FleetFrame,
 *   actions: import("./row_actions.js").RowActions}} props
 */
export function ActionCell({ replica, frame, actions }) {
  const row = actions.of(replica.name);
  return html`${MAY_CHANGE && html`<${Button} replica=${replica} row=${row} actions=${actions} />`}
    ${actions.adminState(replica) !== "active" && html`<div class="cell-note">${drained(replica, frame)}</div>`}
    ${row.result && html`<div class="cell-note applied" role="status">${row.result}</div>`}
    ${row.problem && html`<div class="cell-note problem" role="alert">${row.problem}</div>`}`;
}

/** @param {any} props */
function Button({ replica, row, actions }) {
  const { name } = replica;
  const command = (/** @type {string} */ state) => curl("PATCH", `/fleets/${actions.fleet}/replicas/${name}`, { admin_state: state });
  const common = { type: "button", disabled: row.busy, "aria-busy": row.busy };
  if (actions.adminState(replica) === "active") {
    return html`<button ...${common} title=${command("draining")} aria-label=${`Drain ${name}`} onClick=${() => actions.drain(name)}>Drain</button>`;
  }
  const word = performance.now() < row.undoUntil ? "Undo" : "Activate";
  return html`<button ...${common} title=${command("active")} aria-label=${`${word}${word === "Undo" ? " drain of" : ""} ${name}`}
    onClick=${() => actions.activate(name)}>${word}</button>`;
}

/** Whether it can be stopped: every worker knows that it drains, and none has a request there. */
function drained(
  /** @type {import("../frames.js").ReplicaLive} */ replica,
  /** @type {import("../frames.js").FleetFrame} */ { workers, workers_current: current },
) {
  if (replica.in_flight) return html`<span class="is-draining">${plural(replica.in_flight, "request")} in flight</span>`;
  if (replica.admin_state === "active" || current < workers) return html`<span class="muted">waiting for the workers</span>`;
  return html`<span class="applied">safe to stop</span>`;
}
