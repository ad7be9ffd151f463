/** Write access of this account, as the API will say too: staff have it, others have read-only access. */
export const MAY_CHANGE = document.getElementById("app")?.dataset.mayChange === "yes";
