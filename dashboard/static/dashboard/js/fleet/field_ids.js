/** Which element of the policy panel a field of a policy is. */

/** The `id` of the field that a JSON pointer into a policy means. @param {string} pointer @returns {string} */
export function fieldOf(pointer) {
  const [, first = "", second = ""] = pointer.split("/");
  if (first === "parameters") return `parameter-${second}`;
  if (first === "strategy") return first;
  return `admission-${first === "queue" ? second : first}`;
}

/** Where typing goes on. @param {string} form its `id` */
export function focusFirstWrong(form) {
  const wrong = document.querySelector(`#${form} [aria-invalid="true"]`);
  if (wrong instanceof HTMLElement) wrong.focus();
}
