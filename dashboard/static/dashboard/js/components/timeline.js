/** Event timeline, newest first. */
import { moment } from "../format.js";
import { html } from "../html.js";
import { State } from "./state.js";

/** @param {{events: import("../live/events.js").Events, everyFleet?: boolean, shown?: number}} props */
export function Timeline({ events, everyFleet = false, shown = 30 }) {
  return html`<section class="panel timeline-panel" aria-labelledby="timeline-title">
    <h2 id="timeline-title">Timeline</h2>
    ${events.problem && html`<p class="problem">Events could not be read: ${events.problem}</p>`}
    <div class="scroll-y" tabindex="0" role="region" aria-labelledby="timeline-title">${body(events, shown, everyFleet)}</div>
  </section>`;
}

/** @param {import("../live/events.js").Events} events @param {number} shown @param {boolean} everyFleet */
function body({ list, problem }, shown, everyFleet) {
  if (!list) return problem ? "" : html`<p class="muted">Reading events …</p>`;
  if (!list.length) return html`<p class="muted">No events yet. Changes of state, policy and admin state appear here.</p>`;
  return html`<ol class="timeline">${list.slice(0, shown).map((event) => html`<${Entry} key=${event.id} event=${event} everyFleet=${everyFleet} />`)}</ol>`;
}

/** @param {{event: import("../live/events.js").Event, everyFleet: boolean}} props */
function Entry({ event, everyFleet }) {
  const when = new Date(event.at);
  return html`<li>
    <time datetime=${event.at} title=${when.toLocaleString()}>${moment(when)}</time>
    <span>${event.state && html`<${State} state=${event.state} />`}${subject(event, everyFleet)}${event.text}</span>
  </li>`;
}

/** What it is about, as far as the text does not say so itself. @param {import("../live/events.js").Event} event @param {boolean} everyFleet */
function subject({ fleet, replica, text }, everyFleet) {
  const about = [];
  if (fleet && everyFleet && !text.includes(fleet)) about.push(html`<a href=${`/fleets/${fleet}`}>${fleet}</a>`);
  if (replica && !text.includes(replica)) about.push(html`<b>${replica}</b>`);
  if (!about.length) return "";
  return html`${about[0]}${about.length > 1 && html` / ${about[1]}`}: `;
}
