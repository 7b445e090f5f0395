// chat is the main script of the page: it connects all other parts.

import { apiKey, setAPIKey } from './api.js';
import { app } from './app.js';
import { makeComposer, showComposer, showSpeed } from './composer.js';
import { button, byID, h, icon, replace, say } from './dom.js';
import { count, speed } from './format.js';
import { closeSettings, showSettings, toggleSettings } from './settings.js';
import { makeSidebar, showSidebar, toggleSidebar } from './sidebar.js';
import { nextTheme } from './theme.js';
import { showRows } from './rows.js';
import { growMessage, showThread } from './thread.js';
import { path, title, touch } from './tree.js';
import { growText, showText } from './writing.js';

// Quiet buttons show their text only where the page is wide enough.
const quiet = { words: true, className: 'quiet' };

function bar() {
  const c = app.current;
  const names = app.models.map((one) => one.name);
  if (names.length && !names.includes(c.model)) names.push(c.model); // it may be gone from the server
  const models = h('select', {
    id: 'model', 'aria-label': 'Model', onchange: (event) => app.use(event.target.value),
  }, ...names.map((name) => h('option', { value: name, selected: name === c.model }, name)));
  const rows = c.kind === 'rows';
  replace(byID('bar'),
    button('Conversations', 'menu', () => toggleSidebar(!document.body.classList.contains('listing')), { className: 'narrow' }),
    h('h2', { title: title(c) }, path(c).length ? title(c) : ''), models,
    rows ? null : button('Tokens', 'tokens', toggleTokens, {
      ...quiet, id: 'tokens', 'aria-pressed': String(c.showTokens), title: 'Color tokens by their probability',
    }),
    app.explains && !rows ? explainLink(c) : null,
    rows ? null : button('Branches', 'tree', () => toggleSettings('branches'), { ...quiet, id: 'open-branches' }),
    button('Settings', 'sliders', () => toggleSettings('settings'), { ...quiet, id: 'open-settings' }),
    button('Light or dark', 'theme', () => say(`Theme: ${nextTheme()}`), { id: 'theme' }));
}

// explainLink opens the page that explains how the model reads the conversation, in another window while a reply is
// being written here, so that the reply is not interrupted.
function explainLink(c) {
  const page = app.turn ? { target: '_blank', rel: 'opener' } : {};
  return h('a', {
    id: 'explain', className: 'button quiet', title: 'See inside the model', ...page,
    href: path(c).length ? `/explain?conversation=${encodeURIComponent(c.id)}` : '/explain', onclick: () => app.keep(),
  }, icon('see'), h('span', {}, 'Explain'));
}

function toggleTokens() {
  const c = app.current;
  c.showTokens = !c.showTokens;
  touch(c);
  app.keep(c, true);
  const without = path(c).some((node) => node.role === 'assistant' && !node.tokens);
  if (c.showTokens && without) notice('New replies have probabilities; earlier ones do not.');
  show();
  byID('tokens').focus();
}

// notice shows a line of text that can be dismissed.
function notice(text, bad = false) {
  replace(byID('notice'), h('p', { className: bad ? 'bad' : '' }, text,
    button('Close', 'close', () => byID('notice').replaceChildren())));
}

// atEnd reports whether the end of the messages is in view. If it is, the page scrolls as text is added.
function atEnd() {
  const { scrollTop, clientHeight, scrollHeight } = byID('main');
  return scrollTop + clientHeight > scrollHeight - 60;
}

const toEnd = () => { byID('main').scrollTop = byID('main').scrollHeight; };

// mostSaid is how many characters of a reply are said to users of screen readers.
const mostSaid = 2000;

let frame = 0; // the animation frame requested to show new text
const grown = new Set();
let shown = null;

function show() {
  const end = atEnd() || shown !== app.current;
  shown = app.current;
  document.body.classList.toggle('text', app.current.kind === 'text');
  document.querySelector('.skip').hash = app.field();
  const focused = document.activeElement?.id;
  bar();
  showSidebar();
  if (app.current.kind === 'chat') showThread();
  showText();
  showRows();
  showComposer();
  showSettings();
  byID('thread').setAttribute('aria-busy', String(Boolean(app.turn)));
  document.title = path(app.current).length ? `${title(app.current)} · hippo` : 'hippo';
  if (focused && document.activeElement?.id !== focused) byID(focused)?.focus();
  if (end && app.current.kind !== 'rows') toEnd();
}

function grow() {
  frame = 0;
  const end = atEnd();
  for (const node of grown) {
    growMessage(node);
    growText(node);
  }
  grown.clear();
  if (app.turn) {
    showSpeed(app.turn);
    const pace = byID('pace');
    if (pace) pace.textContent = byID('live').textContent;
  }
  if (end) toEnd();
}

app.addEventListener('change', show);
app.addEventListener('heads', showSidebar);
app.addEventListener('error', ({ detail }) => notice(detail, true));
app.addEventListener('note', ({ detail }) => notice(detail));
app.addEventListener('grow', ({ detail: node }) => {
  if (app.current?.nodes[node.id] !== node) return;
  grown.add(node);
  frame ||= requestAnimationFrame(grow);
});
app.addEventListener('ended', ({ detail: turn }) => {
  const [node] = turn.nodes;
  if (turn.error && turn.error.name !== 'AbortError') return; // the message shows the error
  if (turn.conversation === app.current) {
    // The messages are no live region, which would be read anew with each token: a reply is said once, as a whole.
    say(`The reply is complete: ${count(node.stats.made)} tokens, ${speed(node.stats.made, node.stats.ms)}. ${
      node.content.slice(0, mostSaid)}${node.content.length > mostSaid ? ' …' : ''}`);
  }
});
app.addEventListener('key', ({ detail: again }) => askKey(again));
app.addEventListener('retry', start);

// askKey asks for an API key, then repeats the request that the server refused.
function askKey(again) {
  if (document.querySelector('dialog')) return;
  const field = h('input', { type: 'password', id: 'key', autocomplete: 'off', value: apiKey() });
  const use = () => {
    setAPIKey(field.value.trim());
    dialog.close();
    dialog.remove(); // at once: the response may arrive before the close event, and open the dialog again
    again();
  };
  field.addEventListener('keydown', (event) => { if (event.key === 'Enter') use(); });
  const dialog = h('dialog', { 'aria-labelledby': 'key-title', onclose: () => dialog.remove() },
    h('h2', { id: 'key-title' }, 'This server needs a key'),
    h('p', { className: 'muted' }, apiKey() ? 'The given key is not valid.'
      : 'Ask its operator, who creates keys with "hippo key". Yours is stored until this window is closed.'),
    h('div', { className: 'field long' }, h('label', { htmlFor: 'key' }, 'API key'), field),
    h('div', { className: 'actions' }, button('Cancel', 'close', () => dialog.close(), { words: true }),
      button('Use this key', 'go', use, { words: true, className: 'strong', id: 'use-key' })));
  document.body.append(dialog);
  dialog.showModal();
}

async function start() {
  try {
    byID('notice').replaceChildren();
    await app.start();
    if (document.activeElement !== document.body) return; // the focus is somewhere already
    byID(app.field()).focus({ preventScroll: true });
  } catch (error) {
    if (error.status === 401) askKey(start);
    else {
      notice(`${error.message} `, true);
      byID('notice').firstChild.prepend(button('Try again', 'again', start, { words: true }));
    }
  }
}

addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
  if (app.turn) app.stop();
  else if (document.body.classList.contains('listing')) toggleSidebar(false);
  else if (!byID('panel').hidden) closeSettings();
});

byID('middle').addEventListener('click', (event) => {
  if (!event.target.closest('#bar')) toggleSidebar(false);
});

addEventListener('pagehide', () => { if (app.current && app.turn) app.keep(); });

// linked is the conversation named in the address of the page, as in links from other pages.
async function linked() {
  const id = new URLSearchParams(location.hash.slice(1)).get('conversation');
  if (!id) return;
  history.replaceState(null, '', location.pathname);
  await app.show(id);
}

makeSidebar();
makeComposer();
app.fresh('chat');
app.list();
linked().finally(start);
