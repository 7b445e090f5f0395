// theme switches between light, dark and the system's setting. The browser remembers the choice.

const key = 'hippo.theme';
const order = ['system', 'light', 'dark'];

function stored() {
  try {
    return order.includes(localStorage.getItem(key)) ? localStorage.getItem(key) : 'system';
  } catch {
    return 'system'; // storage is not allowed
  }
}

function show(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

show(stored());

// nextTheme switches to the next theme and returns its name.
export function nextTheme() {
  const theme = order[(order.indexOf(stored()) + 1) % order.length];
  try {
    localStorage.setItem(key, theme);
  } catch { /* it holds until the page is left */ }
  show(theme);
  return theme;
}
