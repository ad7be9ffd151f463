/** Theme colours for canvases. They are written once, in tokens.css; a canvas cannot read `var()` itself. */

/** @type {Map<string, string>} */
const known = new Map();
/** @type {Set<() => void>} */
const listeners = new Set();

/** The colour of a token in the present theme, e.g. `color("--p99")`. @param {string} token */
export function color(token) {
  let value = known.get(token);
  if (value === undefined) {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    value = getComputedStyle(probe).color;
    probe.remove();
    known.set(token, value);
  }
  return value;
}

/** Calls back when the theme has changed; answers what ends that. @param {() => void} listener */
export function onThemeChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed() {
  known.clear();
  for (const listener of listeners) listener();
}

document.addEventListener("themechange", changed);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
