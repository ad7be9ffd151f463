/** Form fields of a replica's memory on accelerators: what it holds, and what its requests lease. */
import { bytes, parseBytes, typed } from "../bytes.js";
import { text } from "../format.js";
import { html, useState } from "../html.js";
import { BytesEntry } from "./bytes_entry.js";
import { listed } from "./draft.js";

/** Amounts that are 0 where nothing is set. @type {import("./draft.js").Field} */
const AMOUNT = { shown: (value) => (value ? typed(value) : ""), sent: (text) => parseBytes(text) ?? 0 };

/** @type {Record<string, import("./draft.js").Field>} */
export const MEMORY_FIELDS = {
  accelerators: { shown: (names = []) => names.join(", "), sent: listed },
  memory_bytes: { shown: typed, sent: parseBytes },
  request_bytes: AMOUNT,
  request_bytes_per_work: AMOUNT,
};

/**
 * @param {{draft: import("./draft.js").Draft, devices: import("../accelerators/model.js").Accelerator[] | null}} props
 *   `devices`: null while they are not known
 */
export function MemoryFields({ draft, devices }) {
  const chosen = listed(draft.text("accelerators"));
  const wrong = Object.keys(MEMORY_FIELDS).some((name) => draft.errors[name]);
  // What is wrong opens it, and being open is what is remembered: it stays in sight while it is put right.
  const [open, setOpen] = useState(false);
  const said = chosen.length ? `${chosen.join(", ")} · ${draft.text("memory_bytes") || "memory not set"}` : "none";
  return html`<details class="details whole" open=${open || wrong} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>Memory on accelerators: ${said}</summary>
    <div class="form">
      <${Devices} draft=${draft} devices=${devices} chosen=${chosen} />
      <${BytesEntry} draft=${draft} name="memory_bytes" label="Held memory" placeholder="16 GiB" help="Memory that it uses on each of them all the time, mainly the model's weights." />
      <${BytesEntry} draft=${draft} name="request_bytes" label="Memory of a request" placeholder="0" help="Leased on each of them while a request runs. 0 for servers that preallocate, such as vLLM." />
      <${BytesEntry} draft=${draft} name="request_bytes_per_work" label="Memory of a unit of work" placeholder="0" help="In addition, for each token (or other unit) of a request's estimated work." />
    </div>
  </details>`;
}

/** @param {{draft: import("./draft.js").Draft, devices: import("../accelerators/model.js").Accelerator[] | null, chosen: string[]}} props */
function Devices({ draft, devices, chosen }) {
  const names = [...new Set([...(devices ?? []).map((one) => one.name), ...chosen])].sort();
  const wrong = draft.errors.accelerators;
  const id = `${draft.id}-accelerators`;
  const choose = (/** @type {string} */ name, /** @type {boolean} */ on) => draft.set("accelerators", names.filter((one) => (one === name ? on : chosen.includes(one))).join(", "));
  return html`<fieldset class="choices whole" id=${id} tabindex="-1" aria-invalid=${Boolean(wrong)} aria-describedby=${wrong ? `${id}-wrong` : undefined}>
    <legend>Accelerators</legend>
    ${!devices && html`<p class="muted">Reading accelerators …</p>`}
    ${devices && !names.length && html`<p class="muted">There is none yet: <a href="/hardware#new-accelerator">create one</a> first.</p>`}
    ${names.map((name) => html`<label class="check" key=${name}><input type="checkbox" checked=${chosen.includes(name)} disabled=${draft.fixed("accelerators")}
      onChange=${(/** @type {any} */ event) => choose(name, event.target.checked)} />${name} <span class="muted">${room(devices?.find((one) => one.name === name))}</span></label>`)}
    ${wrong && html`<p class="problem" role="alert" id=${`${id}-wrong`}>${wrong}</p>`}
  </fieldset>`;
}

/** "36 GiB of 76 GiB free" @param {import("../accelerators/model.js").Accelerator | undefined} device */
function room(device) {
  return device ? `${text(bytes(device.usable_bytes - device.held_bytes))} of ${text(bytes(device.usable_bytes))} free` : "";
}
