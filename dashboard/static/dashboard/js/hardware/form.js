/** Form of a new hardware class. */
import { curl } from "../api.js";
import { TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { html } from "../html.js";
import { PATH } from "./model.js";

/** @param {{model: import("./model.js").HardwareModel}} props */
export function HardwareForm({ model }) {
  const { draft, panels } = model;
  return html`<${FormPanel} title="New hardware class" draft=${draft} action="Create" submit=${() => model.create()} close=${() => panels.close()}
    command=${curl("POST", PATH, { ...model.body(), name: draft.text("name") || "h100-80g" })}>
    <div class="form">
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="h100-80g" required help="It cannot be changed later." />
      <${TextEntry} draft=${draft} name="weight" label="Weight" placeholder="1.0" inputmode="decimal" help="Speed relative to weight 1.0: a replica with 4.0 is expected to do four times the work." />
    </div>
  <//>`;
}
