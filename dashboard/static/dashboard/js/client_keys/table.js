/** Table of active client keys: fleets, traffic against limits, and the actions. */
import { curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { moment, plural } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { VirtualRows } from "../components/virtual_rows.js";
import { matches } from "../components/search.js";
import { KeyFields } from "./form.js";
import { PATH } from "./model.js";
import { TRAFFIC_COLUMNS, TrafficCells, TrafficHeads } from "./traffic_cells.js";

const ROW_PX = 51;
const COLUMNS = TRAFFIC_COLUMNS + 4;

/** @typedef {import("./model.js").ClientKey} ClientKey */

/** "every fleet", "a, b", or that they are gone. @param {ClientKey} one */
export function opens({ fleets }) {
  if (fleets === null) return "every fleet";
  return fleets.join(", ") || "nothing: its fleets are deleted";
}

/**
 * @param {{model: import("./model.js").KeysModel, traffic: import("./traffic.js").Traffic, list: ClientKey[], search: string,
 *   required: boolean | null}} props
 */
export function KeyTable({ model, traffic, list, search, required }) {
  const found = list.filter((one) => matches(search, [one.name, one.prefix, opens(one), `${one.priority} priority`, one.created_by]));
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Client keys">
      <table class="cards client-keys">
        <thead><tr><th scope="col">Client key</th><th scope="col">Opens</th><${TrafficHeads} /><th scope="col">Created</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        ${found.length
          ? html`<${VirtualRows} items=${found} height=${ROW_PX} columns=${COLUMNS} row=${(/** @type {ClientKey} */ one) =>
              html`<${Row} key=${one.id} one=${one} model=${model} traffic=${traffic} last=${list.length === 1} required=${required !== false} />`} />`
          : html`<tbody><tr><td colspan=${COLUMNS} class="muted full">No client key matches “${search}”.</td></tr></tbody>`}
      </table>
    </div>
    <p class="table-foot" role="status">${model.done || `${plural(list.length, "client key")}. ${required === false ? "Requests need none, but may carry one" : "Every request to the proxy needs one"}, as Authorization: Bearer or x-api-key.`}</p>
  </section>`;
}

/** @param {{one: ClientKey, model: import("./model.js").KeysModel, traffic: import("./traffic.js").Traffic, last: boolean, required: boolean}} props */
function Row({ one, model, traffic, last, required }) {
  const open = model.editing === one.id;
  const { name, prefix, created_by: by, created_at } = one;
  const at = new Date(created_at);
  return html`<tr data-key=${name}>
      <td class="half wrap"><b>${name}</b><span class="sub mono">${prefix}…</span></td>
      <td class="half wrap" data-label="Opens">${opens(one)}<span class="sub">${one.priority} priority</span></td>
      <${TrafficCells} one=${one} traffic=${traffic} />
      <td class="half" data-label="Created"><time datetime=${created_at} title=${at.toLocaleString()}>${moment(at)}</time><span class="sub">by ${by}</span></td>
      <td class="actions full">${MAY_CHANGE && html`<button type="button" aria-label=${`Change ${name}`} aria-expanded=${open && !model.revoking} onClick=${() => model.open(one, false)}>Change</button>
        ${" "}<button type="button" aria-label=${`Revoke ${name}`} aria-expanded=${open && model.revoking} onClick=${() => model.open(one, true)}>Revoke …</button>`}</td>
    </tr>
    ${open && html`<tr class="note"><td class="full" colspan=${COLUMNS}>${model.revoking ? html`<${Revocation} one=${one} model=${model} last=${last} required=${required} />` : html`<${Change} one=${one} model=${model} />`}</td></tr>`}`;
}

/** @param {{one: ClientKey, model: import("./model.js").KeysModel}} props */
function Change({ one, model }) {
  const draft = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  const save = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), draft.busy || model.save());
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && model.close();
  return html`<form ref=${form} class="edit in-row" noValidate onSubmit=${save} onKeyDown=${leave} aria-label=${`Change ${one.name}`}>
    <${KeyFields} draft=${draft} fleets=${model.fleets} />
    <div class="row"><button class="primary" disabled=${draft.busy || !draft.dirty()} aria-busy=${draft.busy}>Save</button><button type="button" onClick=${() => model.close()}>Cancel</button></div>
    ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("PATCH", `${PATH}/${one.id}`, model.changes(draft))} />
  </form>`;
}

/** @param {{one: ClientKey, model: import("./model.js").KeysModel, last: boolean, required: boolean}} props */
function Revocation({ one, model, last, required }) {
  const { busy, problem } = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  return html`<${Confirm} action=${`Revoke ${one.name}`} busy=${busy} problem=${problem} confirm=${() => model.revoke(one)} close=${() => model.close()} command=${curl("DELETE", `${PATH}/${one.id}`)}>
    <p>Within a second ${required ? html`every request that carries <code>${one.prefix}…</code> is answered 401` : html`<code>${one.prefix}…</code> is as good as no key`}, and its streams and WebSockets are ended. Whatever uses the key <b>${one.name}</b> (it opens ${opens(one)}) stops working until it has another one. This cannot be undone.</p>
    ${last && required && html`<p class="is-unready"><b>It is the last key, and keys are required.</b> Within a second of revoking it every proxy answers 401 to every request, until another key is created or keys are no longer required. To keep serving clients, create another key first.</p>`}
  <//>`;
}
