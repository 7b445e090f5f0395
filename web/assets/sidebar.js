// sidebar lists the conversations of this browser.

import { app } from './app.js';
import { button, byID, h, replace, say } from './dom.js';

let query = '';
const list = h('ul', { className: 'conversations' });

export function makeSidebar() {
  const file = h('input', {
    type: 'file', accept: '.json,application/json', hidden: true, 'aria-label': 'File of conversations',
    onchange: () => take(file.files[0]).finally(() => { file.value = ''; }),
  });
  replace(byID('sidebar'),
    h('div', { className: 'brand' }, h('img', { src: '/assets/hippo.svg', alt: '', width: 26, height: 26 }), h('span', {}, 'hippo'),
      button('Close the list', 'close', () => toggleSidebar(false), { className: 'narrow' })),
    h('div', { className: 'start' },
      button('New conversation', 'plus', () => fresh('chat'), { words: true }),
      button('New text to continue', 'edit', () => fresh('text'), { id: 'new-text' })),
    h('input', {
      type: 'search', placeholder: 'Search titles', 'aria-label': 'Search titles', className: 'search',
      oninput: (event) => { query = event.target.value; showSidebar(); },
    }),
    list,
    h('div', { className: 'foot' },
      button('Export all', 'down', save, { words: true }),
      button('Import', 'clip', () => file.click(), { words: true }), file,
      h('a', { href: '/openapi.json', className: 'muted', title: 'The server\'s interface, in OpenAPI 3.1' }, 'API')));
}

function fresh(kind) {
  toggleSidebar(false);
  app.fresh(kind);
  byID(app.field())?.focus();
}

// toggleSidebar shows or hides the list, which on a narrow page lies over it.
export function toggleSidebar(open) { document.body.classList.toggle('listing', open); }

// showSidebar draws the list.
export function showSidebar() {
  const words = query.toLowerCase();
  const found = app.heads.filter((one) => one.title.toLowerCase().includes(words));
  replace(list, found.map(entry));
  if (!found.length) list.append(h('li', { className: 'muted none' }, query ? 'No title matches.' : 'Conversations stay in this browser.'));
}

function entry(one) {
  const current = one.id === app.current?.id;
  const item = h('li', { className: current ? 'current' : '' },
    h('button', {
      type: 'button', className: 'title', 'aria-current': current ? 'true' : null,
      onclick: () => { toggleSidebar(false); app.show(one.id); },
    }, app.turns.has(one.id) ? h('span', { className: 'dot', title: 'A reply is being written' }) : null, one.title),
    button(`Rename ${one.title}`, 'edit', () => rename(item, one)),
    button(`Delete ${one.title}`, 'trash', () => remove(item, one)));
  return item;
}

function rename(item, one) {
  const field = h('input', { value: one.title, 'aria-label': 'Title', maxLength: 200 });
  let over = false;
  const end = (keep) => {
    if (over) return;
    over = true;
    if (keep && field.value.trim()) app.rename(one.id, field.value);
    else showSidebar();
  };
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) end(true);
    if (event.key === 'Escape') end(false);
    event.stopPropagation();
  });
  field.addEventListener('blur', () => end(true));
  replace(item, field);
  field.select();
}

// remove replaces an entry by a question whether to delete it.
function remove(item, one) {
  const no = h('button', { type: 'button', className: 'button', onclick: showSidebar }, 'Keep');
  replace(item, h('span', { className: 'question' }, 'Delete this?'),
    h('button', { type: 'button', className: 'button danger', onclick: () => app.remove(one.id) }, 'Delete'), no);
  no.focus();
}

async function save() {
  const text = JSON.stringify(await app.everything(), null, 1);
  const link = h('a', { href: URL.createObjectURL(new Blob([text], { type: 'application/json' })), download: 'hippo-conversations.json' });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function take(file) {
  try {
    const n = await app.take(await file.text());
    say(`${n} conversations imported.`);
  } catch (error) {
    app.tell('error', error.message);
  }
}
