/** System page: the health of Switchyard's own parts. It polls the API, so it works without Redis. */
import { html } from "../html.js";
import { showStalenessBadge } from "../live/staleness_badge.js";
import { renderPage } from "../live/rendering.js";
import { PolledResource } from "../live/polled_resource.js";
import { Banner } from "../components/banner.js";
import { searchField } from "../components/search.js";
import { staleStatus } from "../components/stale_banner.js";
import { Parts } from "./parts.js";
import { Processes } from "./processes.js";
import { Proxies } from "./proxies.js";

const EVERY_MS = 2000;
const TITLES = { calm: "All is well", notice: "Worth knowing", warn: "Needs attention", bad: "Something is broken" };

let search = "";
const poll = new PolledResource("/system", EVERY_MS, draw);

function draw() {
  renderPage(System, Boolean(poll.data || poll.failures));
}

function System() {
  /** @type {import("./health_level.js").SystemStatus | null} */
  const system = poll.data;
  if (!system) return html`<${Banner} status=${{ level: "bad", title: "No response", text: `${poll.reason} Trying again.` }} />`;
  const { level, words, cure } = system.verdict;
  const now = { level, title: TITLES[level], text: cure ? `${words} ${cure}` : words };
  return html`
    <${Banner} status=${seen(now)} />
    <${Parts} parts=${system.parts} />
    <${Proxies} system=${system} search=${search} />
    <${Processes} system=${system} search=${search} />`;
}

/** What was wrong when the server answered last is still the best guess at why it is slow to answer now. @param {import("../components/banner.js").BannerStatus} now */
function seen(now) {
  const stale = staleStatus(poll);
  if (!stale || poll.ended || now.level === "calm" || now.level === "notice") return stale ?? now;
  return { ...now, text: html`${now.text} <b>Not live:</b> ${stale.text}` };
}

showStalenessBadge(poll);
searchField({ changed: (words) => ((search = words), draw()) });
poll.start();
