/** API tokens: one's own, and for staff everybody's. */
import { API } from "../api.js";
import { Panels } from "../edit/panels.js";
import { Reading } from "../edit/reading.js";
import { html, render } from "../html.js";
import { searchField } from "../parts/search.js";
import { ShownOnce } from "../parts/shown_once.js";
import { NoTokens, TokenForm } from "./form.js";
import { TokensModel } from "./model.js";
import { TokenTable } from "./table.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
const user = place.dataset.user ?? "";
const reading = new Reading("/tokens", draw);
const panels = new Panels(draw);
const model = new TokensModel(reading, panels, draw);
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
  return html`${problem && html`<p class="panel problem" role="alert">The API tokens could not be read: ${problem}${list && " Shown is what was read last."} Trying again.</p>`}
    ${model.made && html`<${Made} key=${model.made.token} made=${model.made} />`}
    ${panels.open === "new" && html`<${TokenForm} model=${model} />`}
    ${list && (list.length ? html`<${TokenTable} model=${model} list=${list} search=${search} user=${user} />` : html`<${NoTokens} user=${user} />`)}`;
}

/** @param {{made: import("./model.js").Made}} props */
function Made({ made }) {
  const look = `export TOKEN=${made.token}\ncurl -s -H "Authorization: Token $TOKEN" ${location.origin}${API}/fleets`;
  return html`<${ShownOnce} title=${`API token ${made.name} is made`} what="API token" secret=${made.token}
    notes="It may do what you may." commands=${[["All fleets with it; every other command here then works as it stands:", look]]} done=${() => model.forget()} />`;
}

searchField({ changed: (words) => ((search = words), draw()) });
reading.start();
