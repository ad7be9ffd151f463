/** Alerts page: what fires, since when and why; silences, destinations and rules. It polls, so it works without Redis. */
import { PanelSwitch } from "../edit/panel_switch.js";
import { age, plural } from "../format.js";
import { html } from "../html.js";
import { renderPage } from "../live/rendering.js";
import { showStalenessBadge } from "../live/staleness_badge.js";
import { Banner } from "../components/banner.js";
import { searchField } from "../components/search.js";
import { staleStatus } from "../components/stale_banner.js";
import { AlertTable } from "./alert_table.js";
import { DestinationForm, Destinations, NewSecret } from "./destinations.js";
import { AlertsModel } from "./model.js";
import { Rules, ThresholdForm } from "./rules.js";
import { Resolved, Silences } from "./silences.js";

let search = "";
const panels = new PanelSwitch(draw);
const model = new AlertsModel(panels, draw);

function draw() {
  renderPage(AlertsPage, Boolean(model.poll.data || model.poll.failures));
}

/** Longer than that, and what is shown says nothing of now: they are 5 s apart. */
const OVERDUE_S = 30;

/** Nobody looks whether anything is wrong. @returns {import("../components/banner.js").BannerStatus | null} */
function unwatched() {
  const old = model.evaluatedAgeS;
  if (!model.settingsRead || (old !== null && old <= OVERDUE_S)) return null;
  const since = old === null ? "It is not known when they last were" : `They were last evaluated ${age(old)} ago`;
  return { level: "bad", title: "Alerts are not evaluated", text: `${since}: neither the conductor nor a Celery worker does so, or Redis does not answer.`, href: "/system", action: "System" };
}

/** @returns {import("../components/banner.js").BannerStatus} */
function verdict() {
  const firing = model.alerts.filter((one) => one.state === "firing" && !one.silence);
  const silenced = model.alerts.filter((one) => one.state === "firing" && one.silence).length;
  const rest = silenced ? ` ${plural(silenced, "alert")} more ${silenced === 1 ? "is" : "are"} silenced.` : "";
  const critical = firing.filter((one) => one.severity === "critical");
  const first = critical[0] ?? firing[0];
  if (!first) return { level: silenced ? "notice" : "calm", title: "Nothing fires", text: rest.trim() || "No condition of any rule has held for long enough." };
  const where = [first.fleet, first.replica].filter(Boolean).join(" / ") || first.part;
  const title = critical.length ? `${plural(critical.length, "critical alert")}` : plural(firing.length, "warning");
  return { level: critical.length ? "bad" : "warn", title, text: `${first.title}, ${where}: ${first.why}.${rest}` };
}

function AlertsPage() {
  const stale = staleStatus(model.poll);
  if (!model.poll.data) return html`<${Banner} status=${{ level: "bad", title: "No response", text: `${model.poll.reason} Trying again.` }} />`;
  return html`
    <${Banner} status=${stale ?? unwatched() ?? verdict()} />
    <${NewSecret} model=${model} />
    ${panels.open === "new-destination" && html`<${DestinationForm} model=${model} />`}
    ${panels.open === "new-threshold" && html`<${ThresholdForm} model=${model} />`}
    ${model.done && html`<p class="removed" role="status">${model.done}</p>`}
    ${model.row.problem && html`<p class="panel problem" role="alert">${model.row.problem}</p>`}
    <${AlertTable} model=${model} search=${search} />
    <${Silences} model=${model} />
    <${Resolved} model=${model} />
    <${Destinations} model=${model} />
    <${Rules} model=${model} />`;
}

showStalenessBadge(model.poll);
searchField({ changed: (words) => ((search = words), draw()) });
model.start();
