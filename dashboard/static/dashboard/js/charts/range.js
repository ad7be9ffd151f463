/** Time range of the charts: the header's choice, remembered. */

const KEY = "switchyard.range";

/** @param {() => void} changed @returns {() => number} the seconds shown */
export function chosenRange(changed) {
  const select = /** @type {HTMLSelectElement} */ (document.querySelector("[data-range]"));
  try {
    const stored = localStorage.getItem(KEY);
    if (stored && [...select.options].some((option) => option.value === stored)) select.value = stored;
  } catch {
    // Storage refused: the default stands.
  }
  select.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, select.value);
    } catch {
      // Storage refused: the choice lasts as long as the page.
    }
    changed();
  });
  return () => Number(select.value);
}
