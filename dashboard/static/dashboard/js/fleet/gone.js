/** The page of a fleet that was deleted while it was open: nothing to control is left, only what happened. */
import { html, useEffect } from "../html.js";
import { Banner } from "../parts/banner.js";
import { Timeline } from "../parts/timeline.js";

/** @param {{fleet: string, events: import("../live/events.js").Events}} props */
export function Gone({ fleet, events }) {
  useEffect(() => {
    for (const button of document.querySelectorAll("button[data-panel]")) button.remove();
  }, []);
  /** @type {import("../parts/banner.js").Verdict} */
  const verdict = { level: "warn", title: `${fleet} was deleted`, text: "Nothing of it can be changed any more, and requests that name it are refused. Below is what happened.", href: "/", action: "Open the overview" };
  return html`<${Banner} verdict=${verdict} /><${Timeline} events=${events} />`;
}
