/** Events page: all events, narrowed by filters that the address holds. */
import { api, curl } from "../api.js";
import { moment, plural } from "../format.js";
import { html } from "../html.js";
import { showStalenessBadge } from "../live/staleness_badge.js";
import { root, renderPage } from "../live/rendering.js";
import { Banner } from "../components/banner.js";
import { Copyable } from "../components/copyable.js";
import { searchField } from "../components/search.js";
import { Audit } from "./audit.js";
import { Days } from "./days.js";
import { EventLog } from "./event_log.js";
import { FilterBar } from "./filter_bar.js";
import { Filters } from "./filters.js";
import { isReading, keepScrollAnchor, moveByKey } from "./scroll_anchor.js";
import { zoneText } from "./times.js";

const TYPED_MS = 250;
const field = /** @type {HTMLInputElement} */ (document.querySelector("[data-search]"));
const log = new EventLog(changed);
const audit = new Audit(draw);
const filters = new Filters(opened);
/** @type {string[]} */
let fleets = [];
/** New ones above what is being read. */
let above = 0;
let timer = 0;

function opened() {
  above = 0;
  audit.open.clear();
  if (document.activeElement !== field) field.value = filters.wanted.search;
  log.open(filters.query());
  draw();
}

/** @param {number} added */
function changed(added) {
  const keep = isReading(audit.open.size > 0);
  above = keep ? above + added : 0;
  keepScrollAnchor(draw, keep && added > 0);
}

function draw() {
  renderPage(Page, Boolean(log.list || log.problem));
}

function Page() {
  const { list } = log;
  return html`
    <${FilterBar} filters=${filters} fleets=${fleets} actors=${named("actor")} replicas=${named("replica")} />
    <${Trouble} />
    ${above > 0 && html`<p class="above" role="status"><button type="button" class="primary" onClick=${toTop}>${plural(above, "new event")} above</button></p>`}
    ${list ? html`<${List} list=${list} />` : !log.problem && html`<div class="skeleton tall" role="status"><span class="visually-hidden">Reading events …</span></div>`}
    <details class="table-foot"><summary>The same as a command</summary>
      <${Copyable} label="Command" text=${curl("GET", quotedQuery())} /></details>`;
}

/** Wrong filters, no answer, or an old one. */
function Trouble() {
  const { problem, refused, list, liveness, ended } = log;
  if (refused) {
    return html`<section class="panel empty" role="alert"><h2>These filters are not valid</h2><p class="problem">${problem}</p>
      <button type="button" onClick=${() => filters.clear()}>Clear filters</button></section>`;
  }
  if (problem && !list) {
    return html`<section class="panel empty" role="alert"><h2>Events could not be read</h2>
      <p class="problem">${problem}</p><p>${ended ? "Reload the page to sign in." : "Trying again every 2 seconds."}</p>
      ${!ended && html`<button type="button" onClick=${() => log.again()}>Try now</button>`}</section>`;
  }
  if (liveness !== "stale") return "";
  const since = moment(new Date(Date.now() - (log.ageMs() ?? 0)));
  const what = ended ? "You are signed out: reload the page to sign in." : `${problem} Trying again.`;
  return html`<${Banner} status=${{ level: "warn", title: "Not live", text: `The events below were read at ${since}. ${what}` }} />`;
}

/** @param {{list: import("./event_log.js").Event[]}} props */
function List({ list }) {
  if (!list.length) return html`<${Nothing} />`;
  const { next, readingOlder, olderProblem } = log;
  return html`<div class="days" onKeyDown=${moveByKey}><${Days} list=${list} audit=${audit} /></div>
    <div class="row older">
      ${next ? html`<button type="button" disabled=${readingOlder} aria-busy=${readingOlder} onClick=${() => log.older()}>${readingOlder ? "Reading …" : "Older events"}</button>` : html`<span class="muted">No older events${filters.any ? " match these filters" : ""}. Events are kept for ${root.dataset.days} days.</span>`}
      ${olderProblem && html`<span class="problem" role="alert">${olderProblem}</span>`}
      <span class="spacer"></span><span class="muted">Times: ${zoneText()}${zoneText() !== "UTC" && "; hover over a time for UTC"}.</span>
    </div>`;
}

function Nothing() {
  if (!filters.any) {
    return html`<section class="panel empty"><h2>No events yet</h2>
      <p>Changes of health, ejections, and everything that somebody changes appear here within two seconds, newest first.
      Begin with a fleet: <a href="/">overview</a>.</p></section>`;
  }
  return html`<section class="panel empty"><h2>No event matches these filters</h2>
    <p>Events are kept for ${root.dataset.days} days. New ones that match will appear here.</p>
    <button type="button" onClick=${() => filters.clear()}>Clear filters</button></section>`;
}

function toTop() {
  above = 0;
  scrollTo(0, 0);
  draw();
  /** @type {HTMLElement | null} */ (document.querySelector("[data-event]"))?.focus({ preventScroll: true });
}

/** What the list names, to be offered. @param {"actor" | "replica"} what @returns {string[]} */
function named(what) {
  const names = (log.list ?? []).map((event) => event[what]).filter(Boolean);
  return /** @type {string[]} */ ([...new Set(names)].sort().slice(0, 200));
}

function quotedQuery() {
  const query = filters.query().toString();
  return query ? `/events?${query}` : "/events";
}

async function readFleets() {
  try {
    const { data } = await api("GET", "/fleets?page_size=1000");
    fleets = data.results.map((/** @type {any} */ one) => one.name);
    draw();
  } catch {
    // The list of events says what is wrong; the choice then holds "all" and what the address names.
  }
}

/** What the field says now, not what it said when the wait began: it may have been cleared since. */
function search() {
  clearTimeout(timer);
  filters.set({ search: field.value.trim() });
}

searchField({
  changed: () => {
    clearTimeout(timer);
    timer = setTimeout(search, TYPED_MS);
  },
});
field.addEventListener("blur", search); // another filter is about to change, or all of them to be cleared
addEventListener("scroll", () => {
  if (scrollY > 4 || !above) return;
  above = 0;
  draw();
}, { passive: true });
document.addEventListener("keydown", (event) => event.target === document.body && moveByKey(event));
showStalenessBadge(/** @type {any} */ (log));
log.start();
opened();
readFleets();
