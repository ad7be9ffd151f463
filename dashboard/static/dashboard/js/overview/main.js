/** The overview page: every fleet, and how all is together. */
import { ChartPanel } from "../charts/chart_panel.js";
import { LATENCY, REQUESTS } from "../charts/kinds.js";
import { CreateFleet, NewFleet } from "../edit/create_fleet.js";
import { Panels } from "../edit/panels.js";
import { html } from "../html.js";
import { place } from "../live/drawing.js";
import { KeysInForce } from "../live/keys_in_force.js";
import { LivePage } from "../live/live_page.js";
import { Banner } from "../parts/banner.js";
import { NothingMeasured } from "../parts/nothing_measured.js";
import { staleVerdict } from "../parts/stale_verdict.js";
import { Timeline } from "../parts/timeline.js";
import { Setup } from "../setup/setup.js";
import { FirstSteps } from "../setup/steps.js";
import { Figures } from "./figures.js";
import { FleetTable, foundFleets } from "./fleet_table.js";
import { OverviewModel } from "./model.js";
import { verdict } from "./verdict.js";
import { Workers } from "./workers.js";

const page = new LivePage("/ws/overview", null);
const { events, feed } = page;
const model = new OverviewModel();
const { proxyUrl = "", tokensUrl = "" } = place.dataset;
const setup = new Setup(page.draw);
const keys = new KeysInForce(page.draw);
const newFleet = new NewFleet(page.draw);
const panels = new Panels(() => {
  if (panels.open === "new") newFleet.read();
  page.draw();
});

function Overview() {
  return html`${panels.open === "new" && html`<${CreateFleet} fleet=${newFleet} close=${() => panels.close()} />`}<${Numbers} />`;
}

function Numbers() {
  const { frame } = model;
  if (!frame) {
    return html`<${NothingMeasured}>This page is connected, but the conductor, which gathers what the proxies report, has not sent anything.<//>`;
  }
  if (setup.shown(frame)) return html`<${FirstSteps} setup=${setup} frame=${frame} proxyUrl=${proxyUrl} tokensUrl=${tokensUrl} keyed=${keys.any} /><${Workers} frame=${frame} />`;
  const chart = page.chart(model.series);
  return html`
    <${Banner} verdict=${staleVerdict(feed) ?? verdict(frame, events.list ?? [], keys.any)} />
    <${Figures} model=${model} frame=${frame} />
    <${FleetTable} model=${model} fleets=${frame.fleets} search=${page.search} />
    <div class="columns">
      <div class="data"><${ChartPanel} kind=${REQUESTS} ...${chart} /></div>
      <div class="data"><${ChartPanel} kind=${LATENCY} ...${chart} /></div>
      <${Timeline} events=${events} everyFleet />
    </div>
    <${Workers} frame=${frame} />`;
}

/** The only fleet found is opened. */
function enter() {
  const found = model.frame ? foundFleets(model.frame.fleets, page.search) : [];
  if (found.length === 1) location.assign(`/fleets/${found[0].name}`);
}

page.start({ model, content: Overview, workers: () => model.frame?.workers.length ?? 0, fresh: () => setup.look(), enter });
