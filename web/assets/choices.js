// choices remembers, in the browser's localStorage, the model and the settings that the user chose last.

import { settingsIn } from './tree.js';

const key = 'hippo.choices';

// kept returns what is remembered. The storage may hold anything.
export function kept() {
  let all;
  try {
    all = JSON.parse(localStorage.getItem(key));
  } catch { /* storage is not allowed, or holds something else */ }
  return { model: typeof all?.model === 'string' ? all.model : '', settings: settingsIn(all?.settings) };
}

// remember changes what is remembered.
export function remember(change) {
  try {
    localStorage.setItem(key, JSON.stringify({ ...kept(), ...change }));
  } catch { /* it holds until the page is left */ }
}
