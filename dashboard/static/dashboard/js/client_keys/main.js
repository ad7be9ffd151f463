/** Client keys: what clients of the proxy present, and which fleets each opens. */
import { Panels } from "../edit/panels.js";
import { Reading } from "../edit/reading.js";
import { plural } from "../format.js";
import { html, render } from "../html.js";
import { searchField } from "../parts/search.js";
import { ShownOnce } from "../parts/shown_once.js";
import { ask, NoKeys } from "./empty.js";
import { KeyForm } from "./form.js";
import { KeysModel } from "./model.js";
import { Revoked } from "./revoked.js";
import { KeyTable } from "./table.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
const proxyUrl = place.dataset.proxyUrl ?? "";
const reading = new Reading("/client-keys", draw);
const panels = new Panels(draw);
const model = new KeysModel(reading, panels, draw);
let search = "";
let skeleton = true;

function draw() {
  if (panels.open === "new") model.readFleets();
  if (!reading.list && !reading.problem) return; // the skeleton stays
  if (skeleton) place.replaceChildren();
  skeleton = false;
  render(html`<${Page} />`, place);
}

function Page() {
  const { list, problem } = reading;
  return html`${problem && html`<p class="panel problem" role="alert">The client keys could not be read: ${problem}${list && " Shown is what was read last."} Trying again.</p>`}
    ${model.made && html`<${Made} key=${model.made.key} made=${model.made} />`}
    ${panels.open === "new" && html`<${KeyForm} model=${model} />`}
    ${list && (list.length ? html`<${KeyTable} model=${model} list=${list} search=${search} />` : html`<${NoKeys} />`)}
    ${list && html`<${Revoked} model=${model} />`}`;
}

/** @param {{made: import("./model.js").Made}} props */
function Made({ made }) {
  const { live, applied } = made.workers;
  const reach = live ? `${applied} of ${plural(live, "proxy worker")} ${applied === 1 ? "knows" : "know"} it already${applied < live ? ", the rest within a second" : ""}.` : "No proxy is running.";
  const first = reading.list && reading.list.length <= 1 && " From now on every request needs a key.";
  const opened = (model.fleets ?? []).filter((fleet) => made.fleets === null || made.fleets.includes(fleet.name));
  const fleet = opened.find(({ protocol }) => protocol === "openai") ?? opened[0];
  return html`<${ShownOnce} title=${`Client key ${made.name} is made`} what="client key" secret=${made.key} notes=${html`${reach}${first}`}
    commands=${[["Which models it opens:", ask(proxyUrl, made.key)], ...(fleet ? [/** @type {[string, string]} */ (["A request with it:", ask(proxyUrl, made.key, fleet)])] : [])]}
    done=${() => model.forget()} />`;
}

searchField({ changed: (words) => ((search = words), draw()) });
reading.start();
