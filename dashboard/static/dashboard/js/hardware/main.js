/** Hardware classes: the weights that replicas take from what they run on. */
import { Panels } from "../edit/panels.js";
import { Reading } from "../edit/reading.js";
import { html, render } from "../html.js";
import { searchField } from "../parts/search.js";
import { HardwareForm } from "./form.js";
import { HardwareModel } from "./model.js";
import { HardwareTable, NoHardware } from "./table.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
const reading = new Reading("/hardware-classes", draw);
const panels = new Panels(draw);
const model = new HardwareModel(reading, panels, draw);
let search = "";
let skeleton = true;

function draw() {
  if (!reading.list && !reading.problem) return; // the skeleton stays
  if (skeleton) place.replaceChildren();
  skeleton = false;
  render(html`<${Page} />`, place);
}

function Page() {
  const { list, problem } = reading;
  const trouble = problem && html`<p class="panel problem" role="alert">The hardware classes could not be read: ${problem}${list && " Shown is what was read last."} Trying again.</p>`;
  return html`${trouble}
    ${panels.open === "new" && html`<${HardwareForm} model=${model} />`}
    ${list && (list.length ? html`<${HardwareTable} model=${model} list=${list} search=${search} />` : html`<${NoHardware} />`)}`;
}

searchField({ changed: (words) => ((search = words), draw()) });
reading.start();
