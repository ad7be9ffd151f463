/** Weight of a replica: a number in the row that opens a form below. Enter saves, Escape closes. */
import { weight as written } from "../format.js";
import { useFocusBack } from "../components/focus_back.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";

/**
 * @param {{replica: import("../frames.js").ReplicaLive, own: number | null | undefined, open: boolean,
 *   onOpen: () => void}} props `own`: set on the replica itself; null: its hardware class's
 */
export function WeightButton({ replica, own, open, onOpen }) {
  const button = useFocusBack(open);
  const number = written(replica.weight);
  if (!MAY_OPERATE) return number;
  return html`<button type="button" ref=${button} class="weight-button" aria-expanded=${open} onClick=${onOpen}
    title=${own === null ? "From its hardware class. Click to give it its own" : "Click to change"}
    aria-label=${`Weight of ${replica.name}: ${number}. Change`}>${number}</button>`;
}

/** @param {{replica: import("../frames.js").ReplicaLive, actions: import("./row_actions.js").RowActions, onClose: () => void}} props */
export function WeightForm({ replica, actions, onClose }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.select(), []);
  const { busy } = actions.of(replica.name);
  const save = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (await actions.weigh(replica.name, entered(field.current?.value ?? ""))) onClose();
  };
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onClose();
  return html`<form class="row" onSubmit=${save} onKeyDown=${leave}>
    <label>Weight <input ref=${field} class="short" inputmode="decimal" aria-label=${`Weight of ${replica.name}`} defaultValue=${written(replica.weight)} disabled=${busy} /></label>
    <button class="primary" disabled=${busy} aria-busy=${busy}>Save</button>
    <button type="button" onClick=${onClose}>Cancel</button>
    <span class="muted">empty: from its hardware class</span>
  </form>`;
}

/** Nothing: null, which unsets it. What is no number goes as it is, for the API to say what is wrong. @param {string} text */
function entered(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const number = Number(trimmed.replace(",", "."));
  return Number.isFinite(number) ? number : trimmed;
}
