/** Page of a fleet that was deleted while it was open: nothing to control, only what happened. */
import { html, useEffect } from "../html.js";
import { Banner } from "../components/banner.js";
import { Timeline } from "../components/timeline.js";

/** @param {{fleet: string, events: import("../live/events.js").Events}} props */
export function DeletedPage({ fleet, events }) {
  useEffect(() => {
    for (const button of document.querySelectorAll("button[data-panel]")) button.remove();
  }, []);
  /** @type {import("../components/banner.js").BannerStatus} */
  const status = { level: "warn", title: `${fleet} was deleted`, text: "It cannot be changed any more, and requests that name it are refused. Its events are below.", href: "/", action: "Open the overview" };
  return html`<${Banner} status=${status} /><${Timeline} events=${events} />`;
}
