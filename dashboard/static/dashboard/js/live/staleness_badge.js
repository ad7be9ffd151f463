/** Staleness badge: how old the page's numbers are, five times a second; marks the whole page while they are stale. */
import { age } from "../format.js";

const TICK_MS = 200;
const ENDED = /** @type {Record<string, string>} */ ({ "signed out": "signed out · reload to sign in", removed: "this fleet was deleted" });

/** @param {import("./feed.js").Feed} feed */
export function showStalenessBadge(feed) {
  const badge = document.querySelector("[data-badge]");
  const announce = document.querySelector("[data-announce]");
  let last = feed.liveness;
  const tick = () => {
    document.documentElement.dataset.live = feed.liveness;
    const words = wording(feed);
    if (badge && badge.textContent !== words) badge.textContent = words;
    if (announce && feed.liveness !== last) {
      announce.textContent = announcement(last, feed);
      last = feed.liveness;
    }
  };
  setInterval(tick, TICK_MS);
  tick();
  return tick;
}

/** @param {import("./feed.js").Feed} feed */
function wording(feed) {
  const old = feed.ageMs();
  if (feed.ended) return ENDED[feed.ended];
  if (feed.liveness === "connecting") return feed.failures ? "not connected · trying again" : "connecting …";
  if (feed.liveness === "waiting" || old === null) return "connected · no data yet";
  if (feed.liveness === "live") return `live · ${age(old / 1000)} ago`;
  return `stale · last update ${age(old / 1000)} ago · ${feed.reason}`;
}

/** For screen readers, on changes only. @param {string} before @param {import("./feed.js").Feed} feed */
function announcement(before, feed) {
  if (feed.liveness === "stale") return "The numbers on this page are no longer live.";
  return feed.liveness === "live" && before === "stale" ? "The numbers are live again." : "";
}
