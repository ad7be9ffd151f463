/** Table of hardware classes: weight, replicas, and the actions. */
import { curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { plural, weight as written } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { matches } from "../components/search.js";
import { PATH } from "./model.js";

const COLUMNS = 4;

/** @typedef {import("./model.js").HardwareClass} HardwareClass */

/** @param {{model: import("./model.js").HardwareModel, list: HardwareClass[], search: string}} props */
export function HardwareTable({ model, list, search }) {
  const found = list.filter((one) => matches(search, [one.name]));
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Hardware classes">
      <table class="cards">
        <thead><tr><th scope="col">Hardware class</th><th scope="col" class="num">Weight</th><th scope="col" class="num">Used by</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>
          ${found.map((one) => html`<${Row} key=${one.name} one=${one} model=${model} />`)}
          ${!found.length && html`<tr><td colspan=${COLUMNS} class="muted full">No hardware class matches “${search}”.</td></tr>`}
        </tbody>
      </table>
    </div>
    <p class="table-foot" role="status">${model.done ? `${model.done.name} ${model.done.text}`.trim() : `${plural(list.length, "hardware class").replace(/classs$/, "classes")}. A replica without a weight of its own takes that of its class.`}</p>
  </section>`;
}

/** @param {{one: HardwareClass, model: import("./model.js").HardwareModel}} props */
function Row({ one, model }) {
  const open = model.editing === one.name;
  return html`<tr data-hardware=${one.name}>
      <td class="half"><b>${one.name}</b></td>
      <td class="num" data-label="Weight">${written(one.weight)}</td>
      <td class="num" data-label="Used by">${plural(one.replicas, "replica")}</td>
      <td class="actions full">${MAY_CHANGE && html`<button type="button" aria-label=${`Change the weight of ${one.name}`} aria-expanded=${open && !model.deleting} onClick=${() => model.open(one, false)}>Change</button>
        ${" "}<button type="button" aria-label=${`Delete ${one.name}`} aria-expanded=${open && model.deleting} onClick=${() => model.open(one, true)}>Delete …</button>`}</td>
    </tr>
    ${open && html`<tr class="note"><td class="full" colspan=${COLUMNS}>${model.deleting ? html`<${Deletion} key="delete" one=${one} model=${model} />` : html`<${Weight} key="weight" one=${one} model=${model} />`}</td></tr>`}`;
}

/** @param {{one: HardwareClass, model: import("./model.js").HardwareModel}} props */
function Weight({ one, model }) {
  const draft = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.select(), []);
  const save = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), model.save());
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && model.close();
  return html`<form class="stack" noValidate onSubmit=${save} onKeyDown=${leave}>
    <div class="notes">
      <label>Weight <input ref=${field} id=${`${draft.id}-weight`} class="short" inputmode="decimal" value=${draft.values.weight} disabled=${draft.busy}
        aria-invalid=${Boolean(draft.errors.weight)} onInput=${(/** @type {any} */ event) => draft.set("weight", event.target.value)} /></label>
      <span class="muted">${one.replicas ? `applies to ${plural(one.replicas, "replica")}, except those with a weight of their own` : "no replica uses it yet"}</span>
      <button class="primary" disabled=${draft.busy} aria-busy=${draft.busy}>Save</button><button type="button" onClick=${() => model.close()}>Cancel</button>
    </div>
    ${(draft.errors.weight || draft.problem) && html`<p class="problem" role="alert">${draft.errors.weight || draft.problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("PATCH", `${PATH}/${one.name}`, { weight: Number(draft.text("weight")) || 0 })} />
  </form>`;
}

/** @param {{one: HardwareClass, model: import("./model.js").HardwareModel}} props */
function Deletion({ one, model }) {
  const { busy, problem } = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  return html`<${Confirm} action=${`Delete ${one.name}`} busy=${busy} problem=${problem} confirm=${() => model.remove()} close=${() => model.close()} command=${curl("DELETE", `${PATH}/${one.name}`)}>
    <p>${one.replicas ? html`<b>${plural(one.replicas, "replica")}</b> ${one.replicas === 1 ? "uses" : "use"} it: deleting is refused until none does.` : `Deletes the hardware class ${one.name}. No replica uses it, so no weight changes.`}</p>
  <//>`;
}

export function NoHardware() {
  return html`<section class="panel empty"><h2>No hardware classes yet</h2>
    <p>A hardware class names a kind of machine and how fast it is relative to weight 1.0. Replicas of one class then share one weight, changed in one place.
      ${" "}None is needed: a replica can carry a weight of its own.</p>
    <${Copyable} label="Create a hardware class" text=${curl("POST", PATH, { name: "h100-80g", weight: 4 })} /></section>`;
}
