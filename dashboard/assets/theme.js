// The theme is the system's until the user chooses another.
const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") root.dataset.theme = kept;

export function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}
