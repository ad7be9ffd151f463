/** Drain dialog in a replica's row: what a drain does with the requests in flight, and whether streams are moved. */
import { curl } from "../api.js";
import { Copyable } from "../components/copyable.js";
import { Plan } from "../components/moving.js";
import { html, useLayoutEffect, useRef, useState } from "../html.js";

/**
 * Whether there is something to decide. Also while nothing is in flight: a button that asks one second and acts in the
 * next would be pressed wrongly.
 * @param {import("../frames.js").ReplicaLive} replica
 */
export const asksToDrain = ({ moving }) => moving !== null;

/** @param {{replica: import("../frames.js").ReplicaLive, actions: import("./row_actions.js").RowActions, onClose: () => void}} props */
export function DrainForm({ replica, actions, onClose }) {
  const { name, in_flight: flying, moving } = replica;
  const [move, setMove] = useState(true);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useLayoutEffect(() => button.current?.focus(), []);
  const { busy } = actions.of(name);
  const drain = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!busy && (await actions.drain(name, move))) onClose();
  };
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onClose();
  const body = { admin_state: "draining", ...(move && { move }) };
  return html`<form class="edit in-row" aria-label=${`Drain ${name}`} onSubmit=${drain} onKeyDown=${leave}>
    <p>No new requests go to <b>${name}</b>.</p>
    <label class="check"><input type="checkbox" checked=${move} disabled=${busy} onChange=${(/** @type {any} */ event) => setMove(event.target.checked)} />Move streams that can be continued</label>
    ${flying === 0 ? html`<p class="muted">Nothing is in flight there now.</p>` : moving && html`<${Plan} moving=${moving} move=${move} flying=${flying} />`}
    <div class="row"><button ref=${button} class="primary" disabled=${busy} aria-busy=${busy}>Drain</button><button type="button" onClick=${onClose}>Cancel</button></div>
    <${Copyable} label="The same as a command" text=${curl("PATCH", `/fleets/${actions.fleet}/replicas/${name}`, body)} />
  </form>`;
}
