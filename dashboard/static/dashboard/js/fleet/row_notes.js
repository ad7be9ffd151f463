/** Notes under a replica's row: an open form, the progress of a drain, the result of a change. */
import { plural } from "../format.js";
import { html } from "../html.js";
import { Left } from "../components/moving.js";
import { MAY_OPERATE } from "../may_change.js";

const COLUMNS = 10;

/**
 * @param {{replica: import("../frames.js").ReplicaLive, frame: import("../frames.js").FleetFrame,
 *   actions: import("./row_actions.js").RowActions, form: any}} props
 */
export function RowNotes({ replica, frame, actions, form }) {
  const { result, problem, undo, undoUntil, busy } = actions.of(replica.name);
  const left = undoUntil - performance.now();
  // A drain's undo is the button of its row.
  const undoable = undo && left > 0 && undo.admin_state !== "active";
  const draining = actions.adminState(replica) !== "active";
  if (!form && !draining && !result && !problem) return null;
  return html`<tr class="note" data-note=${replica.name}><td class="full" colspan=${COLUMNS}><div class="notes">
    ${form}
    ${draining && drained(replica, frame)}
    ${draining && replica.move && replica.moving && html`<${Left} moving=${replica.moving} />`}
    ${draining && MAY_OPERATE && moveButton(replica, actions)}
    ${result && html`<span class=${result.everywhere ? "applied" : "is-unready"} role="status">${result.text}</span>`}
    ${undoable && html`<button type="button" disabled=${busy} aria-label=${`Undo the change of ${replica.name}`} onClick=${() => actions.undo(replica.name)}>Undo · ${Math.ceil(left / 1000)} s</button>`}
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}
  </div></td></tr>`;
}

/**
 * Moves the streams of a replica that is taken out, or stops that.
 * @param {import("../frames.js").ReplicaLive} replica @param {import("./row_actions.js").RowActions} actions
 */
function moveButton({ name, in_flight, move, moving }, actions) {
  const movable = moving?.movable ?? 0;
  if (!(move ? in_flight : movable)) return "";
  const { busy } = actions.of(name);
  return html`<button type="button" disabled=${busy} aria-label=${move ? `Stop moving streams of ${name}` : `Move streams of ${name}`} onClick=${() => actions.move(name, !move)}>
    ${move ? "Stop moving" : `Move ${plural(movable, "stream")}`}</button>`;
}

/**
 * Whether it can be stopped: every worker knows that it drains, and none has a request there.
 * @param {import("../frames.js").ReplicaLive} replica @param {import("../frames.js").FleetFrame} frame
 */
function drained(replica, { workers, workers_current: current }) {
  if (replica.in_flight) return html`<span class="is-draining">${plural(replica.in_flight, "request")} still in flight</span>`;
  if (replica.admin_state === "active") return html`<span class="muted">waiting for the next report</span>`;
  if (current < workers) return html`<span class="muted">${workers - current} of ${plural(workers, "worker")} may still send requests</span>`;
  return html`<span class="applied"><b>safe to stop</b>: nothing in flight, no new requests</span>`;
}
