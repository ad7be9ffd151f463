/** The system page: what Switchyard itself is made of, and how each part is. Asks the API, so it works without Redis. */
import { html } from "../html.js";
import { showBadge } from "../live/badge.js";
import { show } from "../live/drawing.js";
import { Poll } from "../live/poll.js";
import { Banner } from "../parts/banner.js";
import { searchField } from "../parts/search.js";
import { staleVerdict } from "../parts/stale_verdict.js";
import { Parts } from "./parts.js";
import { Processes } from "./processes.js";
import { Proxies } from "./proxies.js";

const EVERY_MS = 2000;
const TITLES = { calm: "All is well", notice: "Worth knowing", warn: "Look at this", bad: "Something does not work" };

let search = "";
const poll = new Poll("/system", EVERY_MS, draw);

function draw() {
  show(System, Boolean(poll.data || poll.failures));
}

function System() {
  /** @type {import("./shapes.js").System | null} */
  const system = poll.data;
  if (!system) return html`<${Banner} verdict=${{ level: "bad", title: "No answer", text: `${poll.reason} It is being tried again.` }} />`;
  const { level, words, cure } = system.verdict;
  const now = { level, title: TITLES[level], text: cure ? `${words} ${cure}` : words };
  return html`
    <${Banner} verdict=${seen(now)} />
    <${Parts} parts=${system.parts} />
    <${Proxies} system=${system} search=${search} />
    <${Processes} system=${system} search=${search} />`;
}

/** What was wrong when the server answered last is still the best guess at why it is slow to answer now. @param {import("../parts/banner.js").Verdict} now */
function seen(now) {
  const stale = staleVerdict(poll);
  if (!stale || poll.ended || now.level === "calm" || now.level === "notice") return stale ?? now;
  return { ...now, text: html`${now.text} <b>Not live:</b> ${stale.text}` };
}

showBadge(poll);
searchField({ changed: (words) => ((search = words), draw()) });
poll.start();
