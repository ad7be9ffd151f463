/** A replica's weight: a number that opens into a field. Enter saves, Escape leaves it. */
import { weight as written } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";

/** @param {{replica: import("../frames.js").ReplicaLive, own: number | null | undefined, actions: import("./row_actions.js").RowActions}} props `own`: set on the replica itself */
export function WeightField({ replica, own, actions }) {
  const [editing, edit] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const opener = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const touched = useRef(false);
  useEffect(() => {
    if (editing) {
      touched.current = true;
      field.current?.select();
    } else if (touched.current) opener.current?.focus();
  }, [editing]);

  const busy = actions.of(replica.name).busy;
  const save = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    const number = Number(text.replace(",", "."));
    if (Number.isNaN(number)) {
      field.current?.setAttribute("aria-invalid", "true");
      return;
    }
    if (await actions.weigh(replica.name, text === "" ? null : number)) edit(false);
  };

  if (!MAY_CHANGE) return written(replica.weight);
  if (!editing) {
    const hint = own === null ? "From its hardware class. Click to give it its own" : "Click to change";
    return html`<button type="button" ref=${opener} class="weight-button" title=${hint} aria-label=${`Weight of ${replica.name}: ${written(replica.weight)}. Change`}
      onClick=${() => edit(true)}>${written(replica.weight)}</button>`;
  }
  return html`<form class="weight-form" onSubmit=${save} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && edit(false)}>
    <input ref=${field} inputmode="decimal" aria-label=${`Weight of ${replica.name}; empty: its hardware class's`} defaultValue=${written(replica.weight)} disabled=${busy} />
    <button class="primary" disabled=${busy} aria-busy=${busy}>Save</button>
  </form>`;
}
