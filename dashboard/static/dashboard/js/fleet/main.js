/** A fleet's page: its replicas, its policy, and what can be done about both. */
import { ChartPanel } from "../charts/chart_panel.js";
import { IN_FLIGHT, LATENCY, REQUESTS } from "../charts/kinds.js";
import { html } from "../html.js";
import { LivePage, place } from "../live/live_page.js";
import { Banner } from "../parts/banner.js";
import { NothingMeasured } from "../parts/nothing_measured.js";
import { staleVerdict } from "../parts/stale_verdict.js";
import { Timeline } from "../parts/timeline.js";
import { NoReplicas, SendRequest } from "./commands.js";
import { FleetModel } from "./model.js";
import { Policy } from "./policy.js";
import { PolicyPanel } from "./policy_panel.js";
import { ReplicaTable } from "./replica_table.js";
import { RowActions } from "./row_actions.js";
import { verdict } from "./verdict.js";

const { fleet = "", protocol = "", proxyUrl = "" } = place.dataset;
const page = new LivePage(`/ws/fleets/${fleet}`, fleet);
const { draw, events, feed } = page;
const model = new FleetModel(fleet, draw);
const policy = new Policy(fleet, draw);
const actions = new RowActions(fleet, draw);

function Fleet() {
  const { frame } = model;
  const chart = page.chart(model.series);
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
  if (!frame) return html`<${NothingMeasured}>The conductor has not sent a frame of this fleet.<//>`;
  if (!frame.replicas.length) return html`<${NoReplicas} fleet=${fleet} />`;
  return html`<${ReplicaTable} model=${model} actions=${actions} search=${page.search} />`;
}

page.start({
  model,
  content: Fleet,
  workers: () => model.frame?.workers ?? 0,
  fresh: () => policy.hint(model.frame?.summary.revision ?? 0),
});
policy.read();
