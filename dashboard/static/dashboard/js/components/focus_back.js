/** Focus goes back to the button that has opened a form, once the form is closed. */
import { useLayoutEffect, useRef } from "../html.js";

/** What the button takes as its `ref`. @param {boolean} open whether its form is */
export function useFocusBack(open) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const opened = useRef(false);
  useLayoutEffect(() => {
    if (opened.current && !open) button.current?.focus();
    opened.current = open;
  }, [open]);
  return button;
}
