/** Words for why requests fall back to another fleet, and why they do not. */

/** By cause. @type {Record<string, string>} */
export const CAUSES = {
  no_eligible_replica: "no replica takes requests",
  no_place: "no place in the queue in time",
  replicas_failed: "the replicas failed",
  first_token: "no first token in time",
  deadline: "late by predictions",
  context_length_exceeded: "too long for the model",
};

/** What keeps requests from it. @type {Record<string, string>} */
export const HINDRANCES = {
  adapter: "for an adapter",
  attempts: "tried often enough",
  body: "body not kept, or too large",
  budget: "over the budget",
  fleet: "fallback not available",
  key: "key not for the fallback",
  late: "late there too",
  not_safe: "not to be sent twice",
};
