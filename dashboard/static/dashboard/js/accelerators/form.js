/** Form of a new accelerator, and the fields that its change form shares. */
import { curl } from "../api.js";
import { BytesEntry } from "../edit/bytes_entry.js";
import { TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { html } from "../html.js";
import { PATH } from "./model.js";

/** @param {{model: import("./model.js").AcceleratorsModel}} props */
export function AcceleratorForm({ model }) {
  const { draft, panels } = model;
  const body = model.body();
  const shown = { ...body, name: body.name || "node1/gpu0", memory_bytes: body.memory_bytes ?? 85899345920 };
  return html`<${FormPanel} title="New accelerator" draft=${draft} action="Create" submit=${() => model.create()} close=${() => panels.close()} command=${curl("POST", PATH, shown)}>
    <div class="form">
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="node1/gpu0" required help="Host and device. It cannot be changed later." />
      <${SizeFields} draft=${draft} />
    </div>
  <//>`;
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
export function SizeFields({ draft }) {
  return html`<${BytesEntry} draft=${draft} name="memory_bytes" label="Memory" placeholder="80 GiB" required help="Of the device: 80 GiB, 512 MiB or a number of bytes." />
    <${TextEntry} draft=${draft} name="headroom_percent" label="Headroom in %" placeholder="5" inputmode="decimal" help="Of its memory, kept free of weights and requests." />`;
}
