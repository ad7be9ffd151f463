/** Second attempts: how often a fleet's requests were sent to a second replica too, and what came of it. */
import { html } from "../html.js";
import { Fact } from "./fact.js";

const MEANING = "Requests whose replica had sent nothing of an answer within the limit, since the proxies started";
/** @type {Record<string, string>} */
const RESULTS = { won: "won by the second one", lost: "won by the first one", failed: "whose second one failed", cancelled: "whose client left" };
/** @type {Record<string, string>} */
const KEPT_BY = { queue: "requests were waiting", busy: "the fleet was busy", budget: "the budget was spent", attempts: "no attempt was left", no_replica: "no other replica had room" };

/** @param {{seconds: import("../frames.js").SecondAttemptsLive | null, limit: number | string, off: boolean}} props `limit`, `off`: as the policy says */
export function SecondAttempts({ seconds, limit, off }) {
  const sent = sum(seconds?.results);
  const not = sum(seconds?.not_sent);
  return html`<${Fact} name="Sent to a second replica"><div data-cell="second_attempts" title=${MEANING}>
    ${sent.toLocaleString("en")} ${sent === 1 ? "request" : "requests"}<p class="help">${[off && "off", limit === "auto" && learned(seconds?.limit_s), listed(seconds?.results, RESULTS), not && `not sent: ${listed(seconds?.not_sent, KEPT_BY)}`].filter(Boolean).join("; ")}</p></div></${Fact}>`;
}

/** @param {number | null | undefined} limit */
function learned(limit) {
  return limit ? `limit ${limit.toPrecision(2)} s, as learned` : "limit not learned yet";
}

/** @param {Record<string, number> | undefined} counts */
function sum(counts = {}) {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

/** @param {Record<string, number> | undefined} counts @param {Record<string, string>} words */
function listed(counts = {}, words) {
  return Object.entries(counts).map(([name, count]) => `${count.toLocaleString("en")} ${words[name] ?? name}`).join(", ");
}
