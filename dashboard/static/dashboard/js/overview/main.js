/** Overview page: every fleet, and the state of all together. */
import { ChartPanel } from "../charts/chart_panel.js";
import { OVERVIEW_CHARTS } from "../charts/chart_definitions.js";
import { CreateFleet, NewFleet } from "../edit/create_fleet.js";
import { PanelSwitch } from "../edit/panel_switch.js";
import { html } from "../html.js";
import { root } from "../live/rendering.js";
import { ClientKeyRequired } from "../live/client_key_required.js";
import { LivePage } from "../live/live_page.js";
import { Banner } from "../components/banner.js";
import { NoData } from "../components/no_data.js";
import { staleStatus } from "../components/stale_banner.js";
import { Timeline } from "../components/timeline.js";
import { Setup } from "../setup/setup.js";
import { FirstSteps } from "../setup/steps.js";
import { Kpis } from "./kpis.js";
import { FleetTable, foundFleets } from "./fleet_table.js";
import { OverviewModel } from "./model.js";
import { refusal, status } from "./status_banner.js";
import { Workers } from "./workers.js";

const page = new LivePage("/ws/overview", null);
const { events, feed } = page;
const model = new OverviewModel();
const { proxyUrl = "", tokensUrl = "" } = root.dataset;
const setup = new Setup(page.draw);
const keys = new ClientKeyRequired(page.draw);
const newFleet = new NewFleet(page.draw);
const panels = new PanelSwitch(() => {
  if (panels.open === "new") newFleet.read();
  page.draw();
});

function Overview() {
  return html`${panels.open === "new" && html`<${CreateFleet} fleet=${newFleet} close=${() => panels.close()} />`}<${Numbers} />`;
}

function Numbers() {
  const { frame } = model;
  if (!frame) {
    return html`<${NoData}>This page is connected, but the conductor, which collects the proxies' reports, has not sent anything.<//>`;
  }
  const refused = refusal(frame);
  if (setup.shown(frame)) return html`${refused && html`<${Banner} status=${refused} />`}<${FirstSteps} setup=${setup} frame=${frame} proxyUrl=${proxyUrl} tokensUrl=${tokensUrl} keyed=${keys.any} /><${Workers} frame=${frame} />`;
  const chart = page.chart(model.series);
  return html`
    <${Banner} status=${staleStatus(feed) ?? status(frame, events.list ?? [], keys.any)} />
    <${Kpis} model=${model} frame=${frame} />
    <${FleetTable} model=${model} fleets=${frame.fleets} search=${page.search} />
    <div class="columns">
      ${OVERVIEW_CHARTS.map((kind) => html`<div class="data" key=${kind.title}><${ChartPanel} kind=${kind} ...${chart} /></div>`)}
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
