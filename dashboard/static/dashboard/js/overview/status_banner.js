/** Status banner of the overview: is anything wrong, where, since when, what to do: one sentence out of one frame. */
import { age, capital, duration, moment, percent, plural, rate, sentence, text } from "../format.js";
import { html } from "../html.js";
import { coldStartText, refusedReason, waitText } from "../components/queue_text.js";
import { exceptions } from "../components/state.js";

const ERROR_RATE_THRESHOLD_PERCENT = 1;
/** A worker reports each second. */
const WORKER_LATE_S = 4;
/** States that no operator has set: something happened. */
const OUT = ["down", "ejected", "unready"];

/** @typedef {import("../components/banner.js").BannerStatus} BannerStatus */
/** @typedef {import("../frames.js").OverviewFrame} OverviewFrame */
/** @typedef {import("../frames.js").FleetSummary} FleetSummary */

/** @param {OverviewFrame} frame @param {import("../live/events.js").Event[]} events @param {boolean} keyed requests need a client key @returns {BannerStatus} */
export function status(frame, events, keyed) {
  return (
    noWorker(frame) ?? unreachable(frame, events, false) ?? refusing(frame) ?? failing(frame) ?? unreachable(frame, events, true) ?? loading(frame) ?? late(frame) ?? troubledWorker(frame) ?? out(frame, events) ?? refused(frame, keyed) ?? calm(frame)
  );
}

/** @param {OverviewFrame} frame @returns {BannerStatus | null} */
function noWorker({ workers }) {
  if (workers.length) return null;
  return {
    level: "bad",
    title: "No proxy reports",
    text: "No proxy worker has reported for 5 s: either none is running, or none can reach Redis. See the proxy's log and its admin listener.",
  };
}

/**
 * A fleet without a replica that takes requests. @param {OverviewFrame} frame @param {import("../live/events.js").Event[]} events
 * @param {boolean} covered one whose requests another fleet gets @returns {BannerStatus | null}
 */
function unreachable({ fleets }, events, covered) {
  const dark = fleets.filter((fleet) => fleet.replicas && !fleet.taking && !fleet.cold && fleet.covered === covered);
  if (!dark.length) return null;
  const [fleet] = dark;
  const more = dark.length > 1 ? ` Also: ${dark.slice(1).map((one) => one.name).join(", ")}.` : "";
  return {
    level: covered ? "warn" : "bad",
    title: fleet.eligible ? `All replicas of ${fleet.name} have weight 0` : `${fleet.name} has no eligible replica`,
    text: html`Its requests ${covered ? "fall back to another fleet" : "are answered with 503"}${!fleet.eligible && since(events, fleet.name, Object.keys(fleet.states))}. ${counted(fleet)}.${more}`,
    href: page(fleet),
    action: `Open ${fleet.name}`,
  };
}

/** A fleet that refuses requests because of a full queue or long waits. @param {OverviewFrame} frame @returns {BannerStatus | null} */
function refusing({ fleets }) {
  const hit = fleets.filter((fleet) => fleet.queue.state === "refusing");
  if (!hit.length) return null;
  const refused = (/** @type {FleetSummary} */ { queue }) => queue.full_per_s + queue.late_per_s;
  const worst = hit.reduce((a, b) => (refused(b) > refused(a) ? b : a));
  const more = hit.filter((fleet) => fleet !== worst).map((fleet) => fleet.name).join(", ");
  return {
    level: "bad",
    title: `Requests to ${worst.name} are refused`,
    text: html`<b>${text(rate(refused(worst)))}</b> are answered with 503. ${refusedReason(worst.queue)}: ${waitText(worst.queue)}.${more && ` Also: ${more}.`}`,
    href: page(worst),
    action: `Open ${worst.name}`,
  };
}

/** A fleet of which every replica is still loading. @param {OverviewFrame} frame @returns {BannerStatus | null} */
function loading({ fleets }) {
  const cold = fleets.filter((fleet) => fleet.cold);
  if (!cold.length) return null;
  const [fleet] = cold;
  const more = cold.slice(1).map((one) => one.name).join(", ");
  const meanwhile = fleet.queue.holds ? "Its requests wait in the queue" : "Until then its requests are answered with 503 and Retry-After";
  return {
    level: "warn",
    title: `${fleet.name} is not ready yet`,
    text: `${sentence(capital(coldStartText(/** @type {import("../frames.js").ColdLive} */ (fleet.cold))))} ${meanwhile}.${more && ` Also: ${more}.`}`,
    href: page(fleet),
    action: `Open ${fleet.name}`,
  };
}

/** A fleet whose requests wait for half of their time or more. @param {OverviewFrame} frame @returns {BannerStatus | null} */
function late({ fleets }) {
  const hit = fleets.filter((fleet) => fleet.queue.state === "late");
  if (!hit.length) return null;
  const [fleet] = hit;
  const more = hit.slice(1).map((one) => one.name).join(", ");
  return {
    level: "warn",
    title: `Requests to ${fleet.name} wait long`,
    text: `${capital(waitText(fleet.queue))}; after ${text(duration(fleet.queue.timeout_s))} in the queue requests are answered with 503.${more && ` Also: ${more}.`}`,
    href: page(fleet),
    action: `Open ${fleet.name}`,
  };
}

/** @param {OverviewFrame} frame @returns {BannerStatus | null} */
function failing({ fleets }) {
  const failing = fleets.filter((fleet) => !fleet.cold && fleet.error_percent >= ERROR_RATE_THRESHOLD_PERCENT);
  if (!failing.length) return null;
  const worst = failing.reduce((a, b) => (b.error_percent > a.error_percent ? b : a));
  return {
    level: "bad",
    title: `Requests to ${worst.name} fail`,
    text: html`<b>${text(percent(worst.error_percent))}</b> of its requests are answered with an error. ${counted(worst)}.`,
    href: page(worst),
    action: `Open ${worst.name}`,
  };
}

/** What matters where there is no fleet yet: after the database was lost, proxies refuse the new one's table. Nothing that passes: what moves the page moves a button away from under a click. @param {OverviewFrame} frame @returns {BannerStatus | null} */
export function refusal({ workers, ...frame }) {
  return troubledWorker({ ...frame, workers: workers.filter((worker) => worker.refused) });
}

/** @param {OverviewFrame} frame @returns {BannerStatus | null} */
function troubledWorker({ workers }) {
  for (const worker of workers) {
    const trouble = workerProblem(worker);
    if (trouble) return { level: "warn", title: "A proxy worker has a problem", text: html`<b>${worker.name}</b> ${trouble}`, href: "/system", action: "System" };
  }
  return null;
}

/** What is wrong with one worker, or "". @param {import("../frames.js").WorkerLive} worker */
export function workerProblem(worker) {
  if (worker.age_s > WORKER_LATE_S) return `has not reported for ${age(worker.age_s)}.`;
  if (worker.refused) return `refused a newer routing table and keeps its last good one: ${worker.refused}`;
  if (worker.strategy_trouble) return `does not pick by the chosen strategy: ${worker.strategy_trouble}.`;
  if (!worker.redis_ok) return "cannot reach Redis; it keeps routing from its last routing table.";
  if (worker.behind) return "has not yet applied the newest routing table.";
  return "";
}

/** Replicas that went out by themselves. @param {OverviewFrame} frame @param {import("../live/events.js").Event[]} events @returns {BannerStatus | null} */
function out({ fleets }, events) {
  const hit = fleets.filter((fleet) => OUT.some((state) => fleet.states[state]));
  if (!hit.length) return null;
  const total = hit.reduce((sum, fleet) => sum + OUT.reduce((one, state) => one + (fleet.states[state] ?? 0), 0), 0);
  const [fleet] = hit;
  const event = latest(events, fleet.name, OUT);
  const rest = hit.slice(1).map((one) => one.name).join(", ");
  return {
    level: "warn",
    title: `${plural(total, "replica")} out of rotation`,
    text: html`<b>${fleet.name}</b>: ${counted(fleet)}${event && html`. Since ${when(event)}: ${event.replica && !event.text.includes(event.replica) && html`<b>${event.replica}</b> `}${firstClause(event)}`}.
      ${" "}The other ${fleet.taking === 1 ? "one takes" : `${fleet.taking} take`} its requests.${rest && ` Also: ${rest}.`}`,
    href: page(fleet),
    action: `Open ${fleet.name}`,
  };
}

/** Requests are rejected before a fleet is found: no fleet's numbers show them. @param {OverviewFrame} frame @param {boolean} keyed @returns {BannerStatus | null} */
function refused({ refused_per_s: refused, total }, keyed) {
  if (refused === 0 || (100 * refused) / (refused + total.rps) < ERROR_RATE_THRESHOLD_PERCENT) return null;
  return {
    level: "notice",
    title: "Requests are refused",
    text: html`<b>${text(rate(refused))}</b> reach no fleet (last 10 s): ${keyed && "no valid client key, "}unknown model, or malformed request. The response tells the client which.`,
    ...(keyed && { href: "/client-keys", action: "Client keys" }),
  };
}

/** @param {OverviewFrame} frame @returns {BannerStatus} */
function calm({ fleets, replicas, workers }) {
  const empty = fleets.filter((fleet) => !fleet.replicas);
  if (empty.length) {
    return {
      level: "notice",
      title: `${empty[0].name} has no replicas yet`,
      text: "Register one, and it takes requests after its first passed probe.",
      href: page(empty[0]),
      action: `Open ${empty[0].name}`,
    };
  }
  const taking = fleets.reduce((sum, fleet) => sum + fleet.taking, 0);
  const waiting = replicas - taking;
  return {
    level: "calm",
    title: waiting ? "Nothing is wrong" : "All is well",
    text: waiting
      ? `${taking} of ${plural(replicas, "replica")} ${taking === 1 ? "takes" : "take"} requests; ${fleets.filter((fleet) => fleet.taking < fleet.replicas).map((fleet) => `${fleet.name}: ${counted(fleet)}`).join("; ")}. No action is needed.`
      : `${replicas === 1 ? "The only replica takes" : `All ${plural(replicas, "replica")} of ${plural(fleets.length, "fleet")} take`} requests, through ${plural(workers.length, "proxy worker")}.`,
  };
}

/** "1 down, 1 draining, 2 with weight 0". @param {FleetSummary} fleet */
function counted(fleet) {
  return exceptions(fleet, ", ") || "All replicas are ready";
}

/** @param {import("../live/events.js").Event[]} events @param {string} fleet @param {string[]} states */
function latest(events, fleet, states) {
  return events.find((event) => event.fleet === fleet && states.includes(event.state));
}

/** @param {import("../live/events.js").Event[]} events @param {string} fleet @param {string[]} states */
function since(events, fleet, states) {
  const event = latest(events, fleet, states);
  return event ? html` since ${when(event)}` : "";
}

/** What follows a semicolon ("probation in 5 s") was true when it was written. @param {import("../live/events.js").Event} event */
function firstClause({ text }) {
  return text.split(";")[0].replace(/\.$/, "");
}

/** @param {import("../live/events.js").Event} event */
function when(event) {
  return moment(new Date(event.at));
}

/** @param {FleetSummary} fleet */
function page(fleet) {
  return `/fleets/${fleet.name}`;
}
