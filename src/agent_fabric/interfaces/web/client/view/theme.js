// Light, dark, or as the system says.

const KEY = "fabric.theme";

/** @returns {string} `light`, `dark` or `system`. */
export const theme = () => localStorage.getItem(KEY) ?? "system";

/** @param {string} [chosen] */
export function applyTheme(chosen) {
  if (chosen) localStorage.setItem(KEY, chosen);
  const now = theme();
  if (now === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}
