/**
 * Search field of the header: "/" focuses it, Escape empties it, Enter opens the only hit. A link
 * to the page may fill it: `?search=…`.
 */

/** @param {{changed: (words: string) => void, enter?: () => void}} on */
export function searchField({ changed, enter }) {
  const field = /** @type {HTMLInputElement} */ (document.querySelector("[data-search]"));
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  const asked = new URLSearchParams(location.search).get("search");
  if (asked) {
    field.value = asked;
    changed(asked);
  }
  field.addEventListener("input", () => changed(field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") enter?.();
    if (event.key !== "Escape") return;
    field.value = "";
    changed("");
    field.blur();
  });
}

/** Whether every word occurs somewhere. @param {string} words @param {string[]} places */
export function matches(words, places) {
  const haystack = places.join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => haystack.includes(word));
}
