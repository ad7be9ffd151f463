/** Stale data banner: while no new data comes, a page must not say that all is well. */
import { moment } from "../format.js";
import { html } from "../html.js";

/** @typedef {{liveness: string, ended: string, socket?: WebSocket | null, redisAway?: boolean, ageMs: () => number | null}} Source */

/** @param {Source} feed @returns {import("./banner.js").BannerStatus | null} null: the numbers are live */
export function staleStatus(feed) {
  const old = feed.ageMs();
  if (feed.liveness !== "stale" || old === null) return null;
  return { level: "warn", title: "Not live", text: html`The numbers below are from ${moment(new Date(Date.now() - old))}. ${remedy(feed)}` };
}

/** @param {Source} feed */
function remedy({ ended, socket, redisAway }) {
  if (ended === "signed out") return "You are signed out: reload the page to sign in.";
  if (socket === undefined) return "The server does not answer; trying again. Proxies keep routing without it."; // a page without a socket
  if (redisAway) return html`Redis, which carries the numbers, cannot be used: see <a href="/system">System</a>. Proxies keep routing without it.`;
  if (socket?.readyState === WebSocket.OPEN) return "This page is connected, but the conductor sends nothing. Is it running? Proxies keep routing without it.";
  return "The connection to the server is lost; reconnecting. Proxies keep routing without it.";
}
