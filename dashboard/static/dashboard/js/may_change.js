/** What this account may do here, as the API will say too. */
const { mayChange, mayOperate } = document.getElementById("app")?.dataset ?? {};
/** Whether it decides what is there: role *administer*. */
export const MAY_CHANGE = mayChange === "yes";
/** Whether it steers traffic (drain, weights, policies, revisions): role *operate*. */
export const MAY_OPERATE = mayOperate === "yes";
