// Colour theme. Runs before the page is painted, so that a stored theme never flashes: a plain script in <head>, no module.
// Stored: "light" or "dark"; nothing stored: the system's choice.
(() => {
  const KEY = "switchyard.theme";
  const ORDER = ["system", "light", "dark"];

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };

  /** @param {string | null} theme */
  const show = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };

  /** @param {string} theme */
  const choose = (theme) => {
    try {
      if (theme === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // Private windows may refuse storage; the choice then lasts as long as the page.
    }
    show(theme);
    document.dispatchEvent(new Event("themechange"));
  };

  show(stored());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-toggle]");
    if (!button) return;
    const current = () => document.documentElement.dataset.theme ?? "system";
    const label = () => {
      button.textContent = `Theme: ${current()}`;
    };
    button.addEventListener("click", () => {
      choose(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]);
      label();
    });
    label();
  });
})();
