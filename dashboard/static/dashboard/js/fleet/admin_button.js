/** Admin state button: drain; for a while after that undo, then activate. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";

/** @param {{replica: import("../frames.js").ReplicaLive, actions: import("./row_actions.js").RowActions}} props */
export function AdminButton({ replica, actions }) {
  if (!MAY_OPERATE) return "";
  const { name } = replica;
  const row = actions.of(name);
  // Not disabled while it is busy: that would take the focus from whoever presses it by keyboard.
  const common = { type: "button", "aria-disabled": row.busy, "aria-busy": row.busy };
  const once = (/** @type {() => void} */ act) => () => row.busy || act();
  const command = (/** @type {string} */ state) => curl("PATCH", `/fleets/${actions.fleet}/replicas/${name}`, { admin_state: state });
  if (actions.adminState(replica) === "active") {
    return html`<button ...${common} title=${command("draining")} aria-label=${`Drain ${name}`} onClick=${once(() => actions.drain(name))}>Drain</button>`;
  }
  const undo = row.undo?.admin_state === "active" && performance.now() < row.undoUntil;
  return html`<button ...${common} title=${command("active")} aria-label=${undo ? `Undo drain of ${name}` : `Activate ${name}`}
    onClick=${once(() => (undo ? actions.undo(name) : actions.activate(replica)))}>${undo ? "Undo" : "Activate"}</button>`;
}
