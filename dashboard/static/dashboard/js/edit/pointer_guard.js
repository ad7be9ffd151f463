/** Pointer guard: layout changes wait until the pointer is up, because a button that moves between press and release is not clicked. */

let pressed = false;
/** @type {(() => void)[]} */
let waiting = [];

function release() {
  pressed = false;
  // After the click, which comes behind this event.
  setTimeout(() => {
    const due = waiting;
    waiting = [];
    for (const act of due) act();
  });
}

addEventListener("pointerdown", () => { pressed = true; }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, (event) => { if (end !== "blur" || event.target === window) release(); }, true);

/** At once, or once nothing is pressed any more. @param {() => void} act */
export function whenPointerUp(act) {
  if (pressed) waiting.push(act);
  else act();
}
