/** Status banner of the client keys: which keys are at a limit, or that the numbers are stale. Nothing while all is well. */
import { rate, text } from "../format.js";
import { staleStatus } from "../components/stale_banner.js";
import { limitText } from "./limits.js";

/** More are counted, not named. */
const MOST_NAMED = 5;

/**
 * @param {import("./traffic.js").Traffic} traffic @param {import("./model.js").ClientKey[]} list
 * @returns {import("../components/banner.js").BannerStatus | null}
 */
export function status(traffic, list) {
  const stale = staleStatus(traffic.feed);
  if (stale) return stale;
  const full = list.filter((one) => traffic.of(one)?.at_limit.length);
  if (!full.length) return null;
  const named = full.slice(0, MOST_NAMED).map((one) => `${one.name} (${reached(one, traffic)})`);
  const more = full.length > MOST_NAMED ? ` and ${full.length - MOST_NAMED} more` : "";
  const refused = full.reduce((sum, one) => sum + (traffic.of(one)?.limited_per_s ?? 0), 0);
  return { level: "warn", title: full.length === 1 ? "A key is at its limit" : `${full.length} keys are at their limits`, text: `${named.join(", ")}${more}: ${text(rate(refused))} refused.` };
}

/** "60 requests per minute and 4 concurrent requests". @param {import("./model.js").ClientKey} one @param {import("./traffic.js").Traffic} traffic */
export function reached(one, traffic) {
  const names = /** @type {import("./limits.js").Limit[]} */ (traffic.of(one)?.at_limit ?? []);
  // A limit that was lifted a moment ago may still be in the last frame.
  const words = names.flatMap((name) => (one[name] === null ? [] : [limitText(name, /** @type {number} */ (one[name]))]));
  return words.join(" and ");
}
