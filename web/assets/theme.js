// theme is the switch between light, dark and what the system has. It is kept for this browser.

const key = 'hippo.theme';
const order = ['system', 'light', 'dark'];

function kept() {
  try {
    return order.includes(localStorage.getItem(key)) ? localStorage.getItem(key) : 'system';
  } catch {
    return 'system'; // where nothing may be kept
  }
}

function show(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

show(kept());

// nextTheme switches, and returns what there is now.
export function nextTheme() {
  const theme = order[(order.indexOf(kept()) + 1) % order.length];
  try {
    localStorage.setItem(key, theme);
  } catch { /* it holds until the page is left */ }
  show(theme);
  return theme;
}
