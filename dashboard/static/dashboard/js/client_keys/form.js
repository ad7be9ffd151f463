/** Form of a client key: name, fleets, limits. */
import { curl } from "../api.js";
import { CheckEntry, TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { html, useEffect } from "../html.js";
import { FirstKeyWarning } from "./empty.js";
import { LimitFields } from "./limits.js";
import { fleetField, PATH } from "./model.js";

/** @param {{model: import("./model.js").KeysModel, required: boolean | null}} props */
export function KeyForm({ model, required }) {
  const { draft, panels, polling } = model;
  const body = model.body(draft);
  useEffect(() => void model.readFleets(), []);
  return html`<${FormPanel} title="New client key" draft=${draft} action="Create" submit=${() => model.create()} close=${() => panels.close()}
    command=${curl("POST", PATH, { ...body, name: body.name || "website" })}>
    ${polling.list?.length === 0 && required === false && html`<${FirstKeyWarning} />`}
    <${KeyFields} draft=${draft} fleets=${model.fleets} />
  <//>`;
}

/** @param {{draft: import("../edit/draft.js").Draft, fleets: {name: string}[] | null}} props */
export function KeyFields({ draft, fleets }) {
  return html`<div class="form">
    <${TextEntry} draft=${draft} name="name" label="Name" placeholder="website" required help="What it is for. Clients do not see it." />
    <${CheckEntry} draft=${draft} name="every" label="Opens" words="every fleet, also those created later" />
    ${!draft.values.every && html`<${Fleets} draft=${draft} fleets=${fleets} />`}
    <${LimitFields} draft=${draft} />
  </div>`;
}

/** @param {{draft: import("../edit/draft.js").Draft, fleets: {name: string}[] | null}} props */
function Fleets({ draft, fleets }) {
  const chosen = Object.keys(draft.values).filter((field) => field.startsWith(fleetField(""))).map((field) => field.slice(fleetField("").length));
  const names = [...new Set([...(fleets ?? []).map((fleet) => fleet.name), ...chosen])].sort();
  const wrong = draft.errors.fleets;
  const id = `${draft.id}-fleets`;
  return html`<fieldset class="choices whole" id=${id} tabindex="-1" aria-invalid=${Boolean(wrong)} aria-describedby=${wrong ? `${id}-wrong` : undefined}>
    <legend>Only these fleets</legend>
    ${!fleets && html`<p class="muted">Reading fleets …</p>`}
    ${fleets && !names.length && html`<p class="muted">There is no fleet yet: create one first, or let the key open every fleet.</p>`}
    ${names.map((name) => html`<label class="check" key=${name}><input type="checkbox" checked=${Boolean(draft.values[fleetField(name)])} disabled=${draft.busy}
      onChange=${(/** @type {any} */ event) => choose(draft, name, event.target.checked)} />${name}</label>`)}
    ${wrong && html`<p class="problem" role="alert" id=${`${id}-wrong`}>${wrong}</p>`}
  </fieldset>`;
}

/** @param {import("../edit/draft.js").Draft} draft @param {string} name @param {boolean} checked */
function choose(draft, name, checked) {
  draft.set("fleets", ""); // what was wrong with the choice
  draft.set(fleetField(name), checked);
}
