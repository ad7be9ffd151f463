/** Write permission of this account, as the API will say too: staff may change things, others have read access. */
export const MAY_CHANGE = document.getElementById("app")?.dataset.mayChange === "yes";
