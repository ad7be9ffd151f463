/** A fleet's page: wires feed, events, policy and row actions to what is drawn. */
import { ChartPanel } from "../charts/chart_panel.js";
import { IN_FLIGHT, LATENCY, REQUESTS } from "../charts/kinds.js";
import { markersOf } from "../charts/markers.js";
import { chosenRange } from "../charts/range.js";
import { plural } from "../format.js";
import { html, render } from "../html.js";
import { showBadge } from "../live/badge.js";
import { Events } from "../live/events.js";
import { Feed } from "../live/feed.js";
import { Banner } from "../parts/banner.js";
import { searchField } from "../parts/search.js";
import { staleVerdict } from "../parts/stale_verdict.js";
import { Timeline } from "../parts/timeline.js";
import { NoReplicas, SendRequest } from "./commands.js";
import { FleetModel } from "./model.js";
import { Policy } from "./policy.js";
import { PolicyPanel } from "./policy_panel.js";
import { ReplicaTable } from "./replica_table.js";
import { RowActions } from "./row_actions.js";
import { verdict } from "./verdict.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
const { fleet = "", protocol = "", proxyUrl = "" } = place.dataset;
const model = new FleetModel(fleet, draw);
const events = new Events(fleet, draw);
const policy = new Policy(fleet, draw);
const actions = new RowActions(fleet, draw);
const seconds = chosenRange(draw);
let search = "";

const feed = new Feed(`/ws/fleets/${fleet}`, {
  hello: (hello) => (model.hello(hello), changed()),
  frame: (frame) => (model.take(frame), changed()),
  change: () => (badge(), draw()),
});
const badge = showBadge(feed);

function changed() {
  events.hint(model.signature());
  if (model.frame) {
    policy.hint(model.frame.summary.revision);
    const workers = document.querySelector("[data-workers]");
    if (workers) workers.textContent = `${plural(model.frame.workers, "worker")} · table ${model.frame.table}`;
  }
  draw();
}

let skeleton = true;

function draw() {
  if (feed.liveness === "connecting") return; // the skeleton stays
  if (skeleton) place.replaceChildren();
  skeleton = false;
  render(html`<${Page} />`, place);
}

function Page() {
  const { frame } = model;
  const markers = markersOf(events.list ?? []);
  const chart = { series: model.series, seconds: seconds(), markers, markersVersion: events.version };
  return html`
    ${frame && frame.replicas.length > 0 && html`<${Banner} verdict=${staleVerdict(feed) ?? verdict(frame)} />`}
    <div class="columns">
      ${[REQUESTS, LATENCY, IN_FLIGHT].map((kind) => html`<div class="data" key=${kind.title}><${ChartPanel} kind=${kind} ...${chart} /></div>`)}
    </div>
    <div class="with-aside">
      <div class="stack">
        <${Replicas} />
        <${Timeline} events=${events} />
      </div>
      <aside class="aside" aria-label="Policy and requests">
        <${PolicyPanel} policy=${policy} />
        <${SendRequest} fleet=${fleet} protocol=${protocol} proxyUrl=${proxyUrl} />
      </aside>
    </div>`;
}

function Replicas() {
  const { frame } = model;
  if (!frame) {
    return html`<section class="panel empty"><h2>Nothing is measured yet</h2>
      <p>The conductor has not sent a frame of this fleet. Is it running? <code>manage.py conductor</code></p></section>`;
  }
  if (!frame.replicas.length) return html`<${NoReplicas} fleet=${fleet} />`;
  return html`<${ReplicaTable} model=${model} actions=${actions} search=${search} />`;
}

searchField({ changed: (words) => ((search = words), draw()) });
policy.read();
events.start();
feed.start();
