/** Drain; for a while after that undo, then activate. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";

/** @param {{replica: import("../frames.js").ReplicaLive, actions: import("./row_actions.js").RowActions}} props */
export function AdminButton({ replica, actions }) {
  if (!MAY_CHANGE) return "";
  const { name } = replica;
  const row = actions.of(name);
  const common = { type: "button", disabled: row.busy, "aria-busy": row.busy };
  const command = (/** @type {string} */ state) => curl("PATCH", `/fleets/${actions.fleet}/replicas/${name}`, { admin_state: state });
  if (actions.adminState(replica) === "active") {
    return html`<button ...${common} title=${command("draining")} aria-label=${`Drain ${name}`} onClick=${() => actions.drain(name)}>Drain</button>`;
  }
  const undo = row.undo?.admin_state === "active" && performance.now() < row.undoUntil;
  return html`<button ...${common} title=${command("active")} aria-label=${undo ? `Undo drain of ${name}` : `Activate ${name}`}
    onClick=${() => (undo ? actions.undo(name) : actions.activate(replica))}>${undo ? "Undo" : "Activate"}</button>`;
}
