/** Fleet page: replicas, policy, queue, and the actions on them. */
import { ChartPanel } from "../charts/chart_panel.js";
import { FLEET_CHARTS } from "../charts/chart_definitions.js";
import { DeleteFleet, EditFleet, FleetSettings } from "../edit/edit_fleet.js";
import { ReplicaEdits } from "../edit/edit_replica.js";
import { PanelSwitch } from "../edit/panel_switch.js";
import { RegisterReplica, Registration } from "../edit/register_replica.js";
import { html } from "../html.js";
import { root } from "../live/rendering.js";
import { ClientKeyRequired } from "../live/client_key_required.js";
import { LivePage } from "../live/live_page.js";
import { MAY_CHANGE } from "../may_change.js";
import { Banner } from "../components/banner.js";
import { NoData } from "../components/no_data.js";
import { staleStatus } from "../components/stale_banner.js";
import { Timeline } from "../components/timeline.js";
import { AffinityPanel } from "./affinity_panel.js";
import { NoReplicas, SendRequest } from "./commands.js";
import { DeletedPage } from "./deleted_page.js";
import { ErrorsPanel } from "./errors_panel.js";
import { FallbackPanel } from "./fallback_panel.js";
import { Objectives, ObjectivesPanel } from "./objectives_panel.js";
import { ScalingPanel } from "./scaling_panel.js";
import { Heading } from "./heading.js";
import { FleetModel } from "./model.js";
import { Policy } from "./policy.js";
import { PolicyPanel } from "./policy_panel.js";
import { Removed, ReplicaTable } from "./replica_table.js";
import { QueuePanel } from "./queue_panel.js";
import { RevisionsPanel } from "./revisions_panel.js";
import { RowActions } from "./row_actions.js";
import { SitesPanel } from "./sites_panel.js";
import { StreamsPanel } from "./streams_panel.js";
import { SourcesPanel } from "../sources/panel.js";
import { SourceActions } from "../sources/source_actions.js";
import { Sources } from "../sources/sources.js";
import { status } from "./status_banner.js";

const { fleet = "", protocol = "", proxyUrl = "" } = root.dataset;
const page = new LivePage(`/ws/fleets/${fleet}`, fleet);
const { draw, events, feed } = page;
const model = new FleetModel(fleet, draw);
const policy = new Policy(fleet, draw);
const actions = new RowActions(fleet, draw, (name) => model.settings.get(name), (one) => model.settings.set(one.name, one));
const registration = new Registration(fleet, () => [...model.settings.keys()], draw);
const edits = new ReplicaEdits(fleet, actions, registration, draw);
const heading = new Heading(protocol);
const settings = new FleetSettings(fleet, heading, draw);
const objectives = new Objectives(fleet, draw);
const sources = new Sources(fleet, draw, () => model.readSettings());
const sourceActions = new SourceActions(fleet, sources, draw);
const keys = new ClientKeyRequired(draw);
const panels = new PanelSwitch(opened);

function opened() {
  if (panels.open === "register") registration.open();
  if (panels.open === "edit") settings.read();
  draw();
}

function Fleet() {
  const { frame } = model;
  if (feed.ended === "removed") return html`<${DeletedPage} fleet=${fleet} events=${events} />`;
  const chart = page.chart(model.series);
  return html`
    ${frame && frame.replicas.length > 0 && html`<${Banner} status=${staleStatus(feed) ?? status(frame)} />`}
    <${OpenPanel} />
    ${frame && frame.replicas.length > 0 && html`<${QueuePanel} summary=${frame.summary} />`}
    <${ObjectivesPanel} objectives=${objectives} />
    ${frame && html`<${ScalingPanel} signal=${frame.scaling} />`}
    ${frame && frame.replicas.length > 0 && html`<${AffinityPanel} summary=${frame.summary} />`}
    ${frame && frame.replicas.length > 0 && html`<${SitesPanel} summary=${frame.summary} />`}
    ${frame && html`<${FallbackPanel} summary=${frame.summary} />`}
    ${frame && html`<${ErrorsPanel} errors=${frame.errors} />`}
    ${frame && html`<${StreamsPanel} fleet=${fleet} point=${frame.point} />`}
    <div class="columns">
      ${FLEET_CHARTS.map((kind) => html`<div class="data" key=${kind.title}><${ChartPanel} kind=${kind} ...${chart} /></div>`)}
    </div>
    <div class="with-aside">
      <div class="stack">
        <${Replicas} />
        <${SourcesPanel} actions=${sourceActions} />
        <${RevisionsPanel} policy=${policy} />
        <${Timeline} events=${events} />
      </div>
      <aside class="aside" aria-label="Policy and requests">
        <${PolicyPanel} policy=${policy} frame=${model.frame} />
        <${SendRequest} fleet=${{ name: fleet, protocol: heading.protocol }} proxyUrl=${proxyUrl} keyed=${keys.any} />
      </aside>
    </div>`;
}

/** The form that is open, above what it changes. */
function OpenPanel() {
  const close = () => panels.close();
  const live = (/** @type {string} */ name) => model.frame?.replicas.find((one) => one.name === name);
  if (panels.open === "register") return html`<${RegisterReplica} registration=${registration} close=${close} live=${live} />`;
  if (panels.open === "edit") return html`<${EditFleet} settings=${settings} close=${close} remove=${() => panels.show("delete")} />`;
  return panels.open === "delete" && html`<${DeleteFleet} settings=${settings} close=${close} frame=${model.frame} />`;
}

function Replicas() {
  const { frame } = model;
  if (!frame) return html`<${NoData}>The conductor has not sent data of this fleet.<//>`;
  const register = MAY_CHANGE && panels.open !== "register" ? () => panels.show("register") : null;
  if (!frame.replicas.length) return html`<${NoReplicas} fleet=${fleet} register=${register} /><${Removed} actions=${actions} />`;
  return html`<${ReplicaTable} model=${model} actions=${actions} edits=${edits} sources=${sources} search=${page.search} />`;
}

page.start({
  model,
  content: Fleet,
  workers: () => model.frame?.workers ?? 0,
  fresh: () => {
    if (!model.frame) return;
    policy.hint(model.frame.summary.revision);
    heading.frame(model.frame.summary);
  },
});
policy.read();
sources.start();
const asked = location.hash.slice(1);
if (["register", "edit"].includes(asked) && MAY_CHANGE) panels.show(asked);
