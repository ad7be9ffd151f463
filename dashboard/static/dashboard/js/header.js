// Height of the sticky header, for what is sticky below it: it may take two lines. A plain script, as theme.js is.
document.addEventListener("DOMContentLoaded", () => {
  const header = document.querySelector(".header");
  if (!header) return;
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--header-measured", `${header.offsetHeight}px`);
  }).observe(header);
});
