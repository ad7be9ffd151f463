/** Whether this account may change anything, as the API will say too: staff may, others look. */
export const MAY_CHANGE = document.getElementById("app")?.dataset.mayChange === "yes";
