// What the renderer of the API page leaves out: the theme that the pages use, and what those need who do not see it.
// A plain script in <head>, so that the theme is there before the first paint.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return localStorage.getItem("switchyard.theme");
    } catch {
      return null;
    }
  };
  const theme = () => root.classList.toggle("dark-mode", (stored() ?? (system.matches ? "dark" : "light")) === "dark");
  theme();
  system.addEventListener("change", theme);

  // An operation's head is one button; the link inside it can be reached by nobody but the mouse, and does the same.
  const unlink = () => {
    for (const link of document.querySelectorAll(".opblock-summary-control a[href]")) link.removeAttribute("href");
  };

  // A parameter's field is named by the first cell of its row, which is not connected with it.
  const name = () => {
    for (const field of document.querySelectorAll("#swagger-ui :is(select, input, textarea):not([aria-label], [aria-labelledby])")) {
      if (field.labels?.length) continue;
      const row = field.closest("tr[data-param-name]");
      const label = row?.dataset.paramName ?? (field.closest(".body-param, .opblock-section-request-body") ? "request body" : "value");
      field.setAttribute("aria-label", label);
    }
    // Long examples scroll: without a mouse they must be reachable for that.
    for (const example of document.querySelectorAll("#swagger-ui pre:not([tabindex])")) example.setAttribute("tabindex", "0");
    document.querySelector("#swagger-ui .close-modal:not([aria-label])")?.setAttribute("aria-label", "Close");
    // Called otherwise than it reads, it is not found by who says what it reads.
    for (const button of document.querySelectorAll("#swagger-ui .auth-btn-wrapper .btn[aria-label]")) button.removeAttribute("aria-label");
  };

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("swagger-ui");
    if (!place) return;
    new MutationObserver(() => (unlink(), name())).observe(place, { childList: true, subtree: true });
  });
})();
