/** Scroll anchoring: new lines at the top must not move the line that is being read. */

/** Somebody reads, rather than watches the top: further down, or with something open or focused in the list. @param {boolean} open */
export function isReading(open) {
  return scrollY > 4 || open || Boolean(document.activeElement?.closest("[data-event]"));
}

/**
 * Draws, and leaves the first line in sight where it is. The browser's own anchoring is off (css/events.css): not
 * every browser has it, and none does it at the very top.
 * @param {() => void} draw @param {boolean} keep
 */
export function keepScrollAnchor(draw, keep) {
  const line = keep ? lineInSight() : undefined;
  const before = line?.getBoundingClientRect().top ?? 0;
  draw();
  if (line?.isConnected) scrollBy(0, line.getBoundingClientRect().top - before);
}

/** The focused line, or the first below the header. @returns {Element | undefined} */
function lineInSight() {
  const focused = document.activeElement?.closest("[data-event]");
  if (focused) return focused;
  const edge = document.querySelector(".header")?.getBoundingClientRect().bottom ?? 0;
  return [...document.querySelectorAll("[data-event]")].find((line) => line.getBoundingClientRect().bottom > Math.max(0, edge));
}

/** j and k, or the arrows while a line has the focus, go from line to line; Enter opens what changed. @param {KeyboardEvent} event */
export function moveByKey(event) {
  const target = event.target instanceof Element ? event.target : null;
  if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input, select, textarea")) return;
  const on = target?.closest("[data-event]");
  const step = { j: 1, k: -1, ArrowDown: on && 1, ArrowUp: on && -1 }[event.key];
  if (step) {
    event.preventDefault();
    const lines = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-event]")]);
    const from = on ? lines.indexOf(/** @type {HTMLElement} */ (on)) : step > 0 ? -1 : lines.length;
    lines[Math.min(lines.length - 1, Math.max(0, from + step))]?.focus();
  } else if (event.key === "Enter" && on && target === on) {
    on.querySelector("button")?.click();
  }
}
