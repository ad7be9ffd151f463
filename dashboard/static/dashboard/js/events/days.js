/** Event list: a heading for each day, a line for each event. */
import { plural } from "../format.js";
import { html } from "../html.js";
import { State } from "../components/state.js";
import { Details } from "./details.js";
import { byDay, dayOf, timeOfDay, utc } from "./times.js";

/** @typedef {import("./event_log.js").Event} Event */

/** @param {{list: Event[], audit: import("./audit.js").Audit}} props */
export function Days({ list, audit }) {
  const now = new Date();
  return html`${byDay(list).map(({ day, when, list: events }) => html`<section class="day" key=${day} aria-label=${dayOf(when, now)}>
    <h2><time datetime=${events[0].at.slice(0, 10)}>${dayOf(when, now)}</time> <span class="muted">${plural(events.length, "event")} shown</span></h2>
    <ol class="panel events">${events.map((event) => html`<${Line} key=${event.id} event=${event} audit=${audit} />`)}</ol>
  </section>`)}`;
}

/** @param {{event: Event, audit: import("./audit.js").Audit}} props */
function Line({ event, audit }) {
  const when = new Date(event.at);
  const open = audit.open.has(event.id);
  const id = `details-${event.id}`;
  return html`<li data-event=${event.id} tabindex="-1">
    <time datetime=${event.at} title=${utc(when)}>${timeOfDay(when)}</time>
    <span class="kind"><span class="tag">${event.kind}</span></span>
    <span class="about"><${About} event=${event} /></span>
    <span class="what">${event.state && html`<${State} state=${event.state} />`}<${Words} event=${event} /></span>
    <span class="who">${event.actor}</span>
    <span class="more">${event.write && html`<button type="button" aria-expanded=${open} aria-controls=${id}
      aria-label=${`${open ? "Close changes" : "Changes"}: ${event.text}`} onClick=${() => audit.toggle(event)}>${open ? "Close" : "Changes"}</button>`}</span>
    ${open && html`<div class="details-in-place" id=${id}><${Details} event=${event} audit=${audit} /></div>`}
  </li>`;
}

/** What is gone has a name and no page. @param {{event: Event}} props */
function About({ event: { fleet, fleet_exists, replica, replica_exists } }) {
  if (!fleet) return html`<span class="muted">all fleets</span>`;
  const page = `/fleets/${fleet}`;
  const fleetName = fleet_exists ? html`<a href=${page}>${fleet}</a>` : gone(fleet);
  if (!replica) return fleetName;
  const replicaName = replica_exists && fleet_exists ? html`<a href=${`${page}?search=${encodeURIComponent(replica)}`}>${replica}</a>` : gone(replica);
  return html`${fleetName}<span class="muted"> / </span>${replicaName}`;
}

/** @param {string} name */
function gone(name) {
  return html`<span title="No longer there">${name}</span><span class="visually-hidden"> (no longer there)</span>`;
}

/** The text, in which the revision that it speaks of leads there. @param {{event: Event}} props */
function Words({ event: { text, fleet, fleet_exists, revision } }) {
  const words = `revision ${revision}`;
  const at = fleet && fleet_exists && revision !== null ? text.lastIndexOf(words) : -1;
  if (at < 0) return text;
  return html`${text.slice(0, at)}<a class="nowrap" href=${`/fleets/${fleet}#revision-${revision}`}>${words}</a>${text.slice(at + words.length)}`;
}
