/** Element ids of the policy panel's fields, by JSON pointer. */

/** The `id` of the field that a JSON pointer into a policy means. @param {string} pointer @returns {string} */
export function fieldOf(pointer) {
  const [, first = "", second = "", ...further] = pointer.split("/");
  if (first === "parameters") return `parameter-${second}`;
  if (first === "strategy") return first;
  return idOf([first, second, ...further].filter(Boolean).join("."));
}

/** The `id` of the field of a value beside the strategy. @param {string} name its place in the policy, as `queue.size` */
export function idOf(name) {
  return `policy-${name.replaceAll(".", "-")}`;
}

/** Where typing goes on. @param {string} form its `id` */
export function focusFirstError(form) {
  const wrong = document.querySelector(`#${form} [aria-invalid="true"]`);
  if (wrong instanceof HTMLElement) wrong.focus();
}
