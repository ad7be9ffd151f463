/** Client keys page: which fleets each key opens, its limits, and its traffic now. */
import { plural } from "../format.js";
import { html } from "../html.js";
import { root } from "../live/rendering.js";
import { ListPage } from "../live/list_page.js";
import { Banner } from "../components/banner.js";
import { proxyRequest } from "../components/proxy_request.js";
import { SecretReveal } from "../components/secret_reveal.js";
import { NoKeys } from "./empty.js";
import { KeyForm } from "./form.js";
import { KeysModel, PATH } from "./model.js";
import { KeysRequired, RequiredPanel } from "./required.js";
import { Revoked } from "./revoked.js";
import { KeyTable } from "./table.js";
import { Traffic } from "./traffic.js";
import { status } from "./status_banner.js";

const proxyUrl = root.dataset.proxyUrl ?? "";
const page = new ListPage(PATH, "client keys", true);
const traffic = new Traffic(page.draw);
const required = new KeysRequired(page.draw);
const model = new KeysModel(page.polling, page.panels, page.draw, required.read);

/** @param {{made: import("./model.js").Made}} props */
function Made({ made }) {
  const { live, applied } = made.workers;
  const reach = live ? `${applied} of ${plural(live, "proxy worker")} ${applied === 1 ? "knows" : "know"} it already${applied < live ? ", the rest within a second" : ""}.` : "No proxy is running.";
  const first = made.effect && ` ${made.effect}`;
  const opened = (model.fleets ?? []).filter((fleet) => made.fleets === null || made.fleets.includes(fleet.name));
  const fleet = opened.find(({ protocol }) => protocol === "openai") ?? opened[0];
  const given = `export SWITCHYARD_KEY=${made.key}`;
  // Only fleets that speak the OpenAI protocol are listed: where it opens none of them, the list says nothing.
  const listed = !fleet || fleet.protocol === "openai";
  /** @type {[string, string][]} */
  const commands = [];
  if (listed) commands.push(["List the models that it opens. The requests on the other pages then work as they are:", `${given}\n${proxyRequest(proxyUrl, null, true)}`]);
  if (fleet) commands.push(listed ? ["A request with it:", proxyRequest(proxyUrl, fleet, true)] : ["A request with it. The requests on the other pages then work as they are:", `${given}\n${proxyRequest(proxyUrl, fleet, true)}`]);
  return html`<${SecretReveal} title=${`Client key ${made.name} is created`} what="client key" secret=${made.key} notes=${html`${reach}${first}`}
    commands=${commands} done=${() => model.forget()} />`;
}

/** @param {{list: import("./model.js").ClientKey[]}} props */
function NowAtLimits({ list }) {
  const now = status(traffic, list);
  return now && html`<${Banner} status=${now} />`;
}

page.start({
  above: () => model.made && html`<${Made} key=${model.made.key} made=${model.made} />`,
  form: () => html`<${KeyForm} model=${model} required=${required.required} />`,
  table: (list) => html`<${NowAtLimits} list=${list} /><${KeyTable} model=${model} traffic=${traffic} list=${list} search=${page.search} required=${required.required} />`,
  empty: () => html`<${NoKeys} done=${model.done} required=${required.required} />`,
  below: () => html`<${RequiredPanel} setting=${required} keys=${page.polling.list?.length ?? 0} /><${Revoked} model=${model} />`,
});
required.start();
traffic.start();
