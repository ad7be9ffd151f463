/**
 * Count of firing alerts in the header of every page. Pages with a socket are told at once (live/feed.js); all ask
 * every few seconds, so that one that is lost costs seconds.
 */
import { api } from "../api.js";
import { plural } from "../format.js";

const PERIOD_MS = 5_000;
/** Of `document`: alerts have changed; `detail` is the counts. */
export const ALERTS_CHANGED = "switchyard:alerts";
const link = /** @type {HTMLAnchorElement | null} */ (document.querySelector("[data-alert-count]"));

/** @param {{critical: number, warning: number}} counts */
function show({ critical, warning }) {
  if (!link) return;
  const level = critical ? "down" : warning ? "unready" : "";
  link.hidden = !level;
  link.dataset.level = level;
  const words = [critical && `${critical} critical`, warning && plural(warning, "warning")].filter(Boolean).join(", ");
  const text = link.querySelector("span");
  if (text && text.textContent !== words) text.textContent = words;
}

async function read() {
  if (document.hidden) return;
  try {
    show((await api("GET", "/alerts/counts")).data);
  } catch {
    // What was known last stays: the page itself says that the server is away.
  }
}

document.addEventListener(ALERTS_CHANGED, (event) => show(/** @type {CustomEvent} */ (event).detail));
document.addEventListener("visibilitychange", read);
setInterval(read, PERIOD_MS);
read();
