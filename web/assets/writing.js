// writing is a text that a model continues, for models that were not trained for conversations. The text in the field
// is the chosen branch of a tree, as in a chat: parts by the user and by the model.

import { ask } from './api.js';
import { app } from './app.js';
import { button, byID, h, replace } from './dom.js';
import { facts, keep, other, side, switches, trouble } from './thread.js';
import { legend, TokenText } from './tokens.js';
import { add, ancestors, path, pick } from './tree.js';

let shownOf = null; // the conversation in the field
let scored = null; // the text and its tokens, once scored
let reading = false; // whether the tokens are shown in place of the field

const field = h('textarea', {
  id: 'text', className: 'page', dir: 'auto', 'aria-label': 'Text', placeholder: 'Write the start of a text, and let the model continue.',
  onkeydown: (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      writeOn();
    }
  },
  oninput: () => {
    app.draft(field.value);
    fit();
    steps();
  },
});

const textOf = (nodes) => nodes.map((node) => node.content).join('');

function fit() {
  const main = byID('main');
  const at = main.scrollTop;
  field.style.height = 'auto';
  field.style.height = `${Math.max(field.scrollHeight + 4, main.clientHeight - (byID('text-about') ? 130 : 90))}px`;
  main.scrollTop = at;
}

// about says what an empty text is for.
function about() {
  const model = app.model();
  return h('p', { className: 'muted about', id: 'text-about' }, model ? `${model.name} continues the text that you begin` : 'The model continues your text',
    model?.known && !model.template ? ': it was not trained for conversations, so write the start of a story, a table or a program.' : '.',
    ' Its embeddings of texts are at /v1/embeddings.');
}

app.addEventListener('file', ({ detail: file }) => {
  if (app.current.kind !== 'text' || app.turn) return;
  field.value += file.text;
  app.draft(field.value);
  showText();
  field.focus();
});

// settle makes the text of the field the chosen branch, and returns its last node ('' for none).
function settle() {
  const c = app.current;
  const text = field.value;
  let at = 0;
  let last = '';
  for (const node of path(c)) {
    if (!text.startsWith(node.content, at)) break;
    at += node.content.length;
    last = node.id;
  }
  const rest = text.slice(at);
  if (!rest) return last;
  const same = Object.values(c.nodes).find((node) => node.parent === last && node.content === rest);
  if (same) pick(c, same.id);
  return same?.id ?? add(c, last, 'user', rest).id;
}

function writeOn(n = 1) {
  if (app.turn || !field.value) return;
  reading = app.current.showTokens;
  scored = null;
  const last = settle();
  app.draft();
  app.reply(last, n);
}

// takeBack removes the last reply from the text. The reply remains as a branch.
function takeBack() {
  const last = path(app.current).filter((node) => node.role === 'assistant').at(-1);
  if (!last || app.turn) return;
  app.draft(textOf(ancestors(app.current, last.parent)));
  reading = false;
  scored = null;
  showText();
}

async function score() {
  const text = field.value;
  try {
    const answer = await ask('/v1/completions', {
      model: app.current.model, prompt: text, max_tokens: 0, echo: true, logprobs: 5,
    });
    const { tokens, token_logprobs: values, top_logprobs: top } = answer.choices[0].logprobs;
    scored = tokens.map((token, i) => [token, values[i], Object.entries(top[i] ?? {}).sort((a, b) => b[1] - a[1])]);
    reading = true;
    showText();
  } catch (error) {
    if (error.status === 401) app.tell('key', score);
    else app.tell('error', error.message);
  }
}

// put sets the text of the field, unless it is the same, so that the cursor stays in place.
function put(text) { if (field.value !== text) field.value = text; }

// showText shows the text: what the user is typing, or else the chosen branch.
export function showText() {
  const c = app.current;
  const thread = byID('thread');
  byID('steps').hidden = c.kind !== 'text';
  if (c.kind !== 'text') {
    shownOf = null;
    return;
  }
  if (shownOf !== c) {
    reading = c.showTokens && path(c).length > 0;
    scored = null;
  }
  const compared = (c.compare ?? []).map((id) => c.nodes[id]).filter(Boolean);
  const nodes = compared.length ? ancestors(c, compared[0].parent) : path(c);
  put(c.draft ?? textOf(nodes));
  shownOf = c;
  field.readOnly = Boolean(app.turn);
  const last = path(c).filter((node) => node.role === 'assistant').at(-1);
  const elements = reading ? [legend(), tokenView(nodes)] : [field];
  if (!nodes.length && !reading) elements.unshift(about());
  if (compared.length) elements.push(side(compared));
  if (last && !compared.length && !scored) {
    elements.push(h('div', { className: 'foot' }, ...[trouble(last), h('div', { className: 'actions' }, switches(last) ?? ''), facts(last)].filter(Boolean)));
  }
  keep(thread, elements);
  fit();
  steps();
}

let growing = null;

function tokenView(nodes) {
  const view = h('div', { className: 'page' });
  growing = null;
  if (scored) {
    const all = new TokenText();
    all.update(scored);
    view.append(all.element);
    return view;
  }
  for (const node of nodes) {
    if (!node.tokens?.length && node.state !== 'running') {
      view.append(h('span', { className: 'plain', dir: 'auto' }, node.content));
      continue;
    }
    const tokens = new TokenText((at, token) => other(node, at, token));
    tokens.update(node.tokens ?? []);
    view.append(tokens.element);
    growing = { id: node.id, tokens };
  }
  return view;
}

// growText shows new text of a node.
export function growText(node) {
  const c = app.current;
  if (c.kind !== 'text' || c.compare) return;
  if (reading && growing?.id === node.id) growing.tokens.update(node.tokens ?? []);
  else if (!reading) {
    put(textOf(path(c)));
    fit();
  }
}

function steps() {
  const running = Boolean(app.turn);
  const none = !field.value;
  const several = h('select', {
    'aria-label': 'Several ways side by side', title: 'Several ways side by side', className: 'several', disabled: running || none,
    onchange: (event) => writeOn(Number(event.target.value)),
  }, h('option', { value: '' }, 'side by side'), ...[2, 3, 4].map((n) => h('option', { value: n }, `× ${n}`)));
  replace(byID('steps'),
    running ? button('Stop', 'stop', () => app.stop(), { words: true, className: 'strong', id: 'go' })
      : button('Continue', 'go', () => writeOn(), { words: true, className: 'strong', id: 'go', disabled: none, title: 'Ctrl+Enter' }),
    several,
    button('Undo', 'left', takeBack, { words: true, disabled: running || !path(app.current).some((node) => node.role === 'assistant') }),
    button('Score', 'tokens', score, { words: true, disabled: running || none, title: 'How probable each token of this text is' }),
    button('Attach a file', 'clip', () => app.tell('choose'), { words: true, disabled: running }),
    reading ? button('Write', 'edit', () => { reading = false; showText(); field.focus(); }, { words: true, disabled: running }) : null,
    h('span', { className: 'live', id: 'pace' }));
}
