/** The overview page: wires feed, events and search to what is drawn. */
import { ChartPanel } from "../charts/chart_panel.js";
import { LATENCY, REQUESTS } from "../charts/kinds.js";
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
import { NoFleets } from "./empty.js";
import { Figures } from "./figures.js";
import { FleetTable, foundFleets } from "./fleet_table.js";
import { OverviewModel } from "./model.js";
import { verdict } from "./verdict.js";
import { Workers } from "./workers.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
const model = new OverviewModel();
const events = new Events(null, draw);
const seconds = chosenRange(draw);
let search = "";

const feed = new Feed("/ws/overview", {
  hello: (hello) => (model.hello(hello), changed()),
  frame: (frame) => (model.take(frame), changed()),
  change: () => (badge(), draw()),
});
const badge = showBadge(feed);

function changed() {
  events.hint(model.signature());
  const workers = document.querySelector("[data-workers]");
  if (workers && model.frame) workers.textContent = `${plural(model.frame.workers.length, "worker")} · table ${model.frame.table}`;
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
  if (!frame) return html`<${Waiting} />`;
  if (!frame.fleets.length) return html`<${NoFleets} /><${Workers} frame=${frame} />`;
  const markers = markersOf(events.list ?? []);
  const chart = { series: model.series, seconds: seconds(), markers, markersVersion: events.version };
  return html`
    <${Banner} verdict=${staleVerdict(feed) ?? verdict(frame, events.list ?? [])} />
    <${Figures} model=${model} frame=${frame} />
    <${FleetTable} model=${model} fleets=${frame.fleets} search=${search} />
    <div class="columns">
      <div class="data"><${ChartPanel} kind=${REQUESTS} ...${chart} /></div>
      <div class="data"><${ChartPanel} kind=${LATENCY} ...${chart} /></div>
      <${Timeline} events=${events} everyFleet />
    </div>
    <${Workers} frame=${frame} />`;
}

/** Connected, but no frame has ever been made. */
function Waiting() {
  return html`<section class="panel empty"><h2>Nothing is measured yet</h2>
    <p>This page is connected, but the conductor, which gathers what the proxies report, has not sent anything.
      ${" "}Is it running? <code>manage.py conductor</code></p></section>`;
}

searchField({
  changed: (words) => ((search = words), draw()),
  enter: () => {
    const found = model.frame ? foundFleets(model.frame.fleets, search) : [];
    if (found.length === 1) location.assign(`/fleets/${found[0].name}`);
  },
});
events.start();
feed.start();
