/** Admin state button: drain; for a while after that undo, then activate. */
import { curl } from "../api.js";
import { useFocusBack } from "../components/focus_back.js";
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { asksToDrain } from "./drain_form.js";

/**
 * @param {{replica: import("../frames.js").ReplicaLive, actions: import("./row_actions.js").RowActions, open: boolean,
 *   onOpen: () => void}} props `open`: whether the drain dialog is; `onOpen`: opens it
 */
export function AdminButton({ replica, actions, open, onOpen }) {
  const button = useFocusBack(open);
  if (!MAY_OPERATE) return "";
  const { name } = replica;
  const row = actions.of(name);
  // Not disabled while it is busy: that would take the focus from whoever presses it by keyboard.
  const common = { ref: button, type: "button", "aria-disabled": row.busy, "aria-busy": row.busy };
  const once = (/** @type {() => void} */ act) => () => row.busy || act();
  const command = (/** @type {string} */ state) => curl("PATCH", `/fleets/${actions.fleet}/replicas/${name}`, { admin_state: state });
  if (actions.adminState(replica) === "active") {
    const asks = asksToDrain(replica);
    return html`<button ...${common} title=${command("draining")} aria-label=${`Drain ${name}`} aria-expanded=${asks ? open : undefined}
      onClick=${once(() => (asks ? onOpen() : actions.drain(name)))}>${asks ? "Drain …" : "Drain"}</button>`;
  }
  const undo = row.undo?.admin_state === "active" && performance.now() < row.undoUntil;
  return html`<button ...${common} title=${command("active")} aria-label=${undo ? `Undo drain of ${name}` : `Activate ${name}`}
    onClick=${once(() => (undo ? actions.undo(name) : actions.activate(replica)))}>${undo ? "Undo" : "Activate"}</button>`;
}
