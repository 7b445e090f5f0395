// thread shows the messages of the chosen branch, and alternative replies side by side until one is chosen.

import { app } from './app.js';
import { answerForm, callsOf, waits } from './calls.js';
import { button, byID, h, replace } from './dom.js';
import { bytes, count, seconds, speed } from './format.js';
import { copyText, Markdown } from './markdown.js';
import { hideCard, isText, legend, textOf, TokenText } from './tokens.js';
import { children, path } from './tree.js';

let views = new Map(); // the Message of each node, by the node's id
let shownOf = null; // the conversation of the views

// Message shows a node.
class Message {
  constructor(node, column = 0) {
    this.id = node.id;
    this.column = column; // from 1, for replies side by side
    this.text = null;
    this.form = null; // for the results of function calls
    this.thoughts = h('details', { className: 'thoughts', hidden: true }, h('summary', {}, 'Thoughts'), h('div', { className: 'plain' }));
    this.body = h('div', { className: 'body' });
    this.foot = h('div', { className: 'foot' });
    const name = { user: 'You', tool: `Result of ${node.name}` }[node.role] ?? (column ? `Reply ${column}` : 'Reply');
    const kind = node.role === 'tool' ? 'user answer' : node.role;
    this.element = h('article', { className: `message ${kind}`, 'aria-label': name }, this.body, this.foot);
    this.element.dataset.id = node.id;
  }

  // grow shows new text of the node and changes nothing else.
  grow(node) {
    const asTokens = app.current.showTokens && node.tokens?.length;
    const kind = asTokens ? TokenText : Markdown;
    if (node.role !== 'assistant') {
      replace(this.body, node.role === 'tool' && h('p', { className: 'muted' }, `${node.name} answers`),
        h('div', { className: 'plain', dir: 'auto' }, node.content), files(node));
    } else {
      if (!(this.text instanceof kind)) {
        this.text = asTokens ? new TokenText((at, token) => other(this.node, at, token)) : new Markdown();
        replace(this.body, this.thoughts, this.text.element);
      }
      this.think(node);
      this.text.update(asTokens ? node.tokens : node.content);
    }
    this.element.classList.toggle('running', node.state === 'running');
  }

  // think shows a model's thoughts, unfolded until the answer begins.
  think(node) {
    const text = node.thoughts ?? '';
    const [, shown] = this.thoughts.children;
    this.thoughts.hidden = !text;
    if (shown.textContent !== text) shown.textContent = text;
    const thinking = !node.content;
    if (thinking !== this.thinking) this.thoughts.open = thinking;
    this.thinking = thinking;
  }

  update(node) {
    this.node = node;
    this.grow(node);
    this.form = !waits(node) ? null : this.form ?? answerForm(node);
    replace(this.foot, callsOf(node), trouble(node), this.column ? null : this.form, this.column ? this.choose(node) : actions(node, this), facts(node));
    this.element.setAttribute('aria-busy', String(node.state === 'running'));
  }

  choose(node) {
    return h('div', { className: 'actions' }, button('Continue from here', 'go', () => app.pick(node.id), {
      words: true, disabled: node.state === 'running', className: 'strong',
    }));
  }

  // edit replaces a message of the user by a text field.
  edit(node) {
    const field = h('textarea', {
      value: node.content, 'aria-label': 'Edit the message', dir: 'auto', rows: Math.min(12, node.content.split('\n').length + 1),
      onkeydown: (event) => {
        if (event.key === 'Escape') this.update(node);
        else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send();
        else return;
        event.preventDefault();
        event.stopPropagation();
      },
    });
    const send = () => app.edit(node, field.value, node.files);
    replace(this.body, field, files(node));
    replace(this.foot, h('div', { className: 'actions' },
      button('Cancel', 'close', () => this.update(node), { words: true }),
      button('Send as a branch', 'send', send, { words: true, className: 'strong' })));
    field.focus();
  }
}

// other replaces one token of a reply and continues the reply from there.
export function other(node, at, token) {
  if (app.turn || !isText(token)) return;
  hideCard();
  const before = node.tokens.slice(0, at);
  const whole = textOf(node.tokens);
  const lead = node.content.endsWith(whole) ? node.content.slice(0, node.content.length - whole.length) : '';
  app.branchReply(node, lead + textOf(before) + token[0], [...before, [...token, node.tokens[at][2]]]);
}

function files(node) {
  return node.files?.length ? h('div', { className: 'files' }, ...node.files.map((file) => h('details', { className: 'file' },
    h('summary', {}, file.name, h('span', { className: 'muted' }, ` ${bytes(file.size)}`)),
    h('pre', { tabIndex: 0 }, file.text)))) : null;
}

// trouble says why a reply is incomplete.
export function trouble(node) {
  if (!['lost', 'failed'].includes(node.state)) return null;
  const text = node.error || 'This reply is incomplete.';
  return h('p', { className: 'trouble' }, text);
}

// facts are the numbers of tokens and the times of a reply.
export function facts(node) {
  if (node.role !== 'assistant' || !node.stats) return null;
  const { prompt, cached, made, first, ms, miss } = node.stats;
  const parts = [];
  if (prompt) parts.push(['read', `${count(prompt)} read`, `${count(prompt)} tokens of the prompt`]);
  if (prompt) {
    parts.push(['cached', `${count(cached)} cached`,
      `${count(cached)} of them were cached: ${count(prompt - cached)} were read${miss ? ` (${miss})` : ''}`]);
  }
  const about = node.stats.counted ? '' : '≈ '; // the server only counts the tokens of several replies together
  if (made) parts.push(['made', `${about}${count(made)} new`, 'tokens of the reply']);
  if (first) parts.push(['first', `first after ${seconds(first)}`, 'time to the first token']);
  if (made > 1 && node.state !== 'running') parts.push(['speed', speed(made - 1, ms), 'after the first token']);
  const model = app.models.find((one) => one.name === node.model);
  if (model?.state && prompt) {
    parts.push(['state', `state ${bytes(model.state + model.growth * (prompt + made))}`, 'rough memory of the model for all this']);
  }
  if (node.finish === 'length') parts.push(['length', 'cut at the token limit', 'raise "Token limit" for more']);
  if (node.model && node.model !== app.current.model) parts.push(['model', node.model, 'the model']);
  return h('p', { className: 'facts' }, ...parts.map(([name, text, why]) => h('span', { className: name, title: why }, text)));
}

// switches are the buttons to the previous and the next branch.
export function switches(node) {
  const all = children(app.current, node.parent);
  if (all.length < 2) return null;
  const at = all.indexOf(node);
  const go = (to) => () => app.pick(all[to].id);
  return h('div', { className: 'branches', role: 'group', 'aria-label': 'Branches' },
    button('Branch before', 'left', at ? go(at - 1) : null, { disabled: at === 0 }),
    h('span', {}, `${at + 1}/${all.length}`),
    button('Next branch', 'right', go(at + 1), { disabled: at === all.length - 1 }));
}

function actions(node, view) {
  const running = Boolean(app.turn);
  const list = [switches(node)];
  if (node.role !== 'assistant') list.push(button('Edit', 'edit', () => view.edit(node), { disabled: running }));
  list.push(button('Copy', 'copy', () => copyText(node.content)));
  if (node.role === 'assistant') {
    const early = node.state !== 'done' || node.finish === 'length';
    if (node.state !== 'running' && early && !app.current.settings.schema) { // a schema rules out continuing
      list.push(button('Continue', 'go', () => app.resume(node), { disabled: running, words: true }));
    }
    list.push(button('Another reply', 'again', () => app.reply(node.parent), { disabled: running }));
    list.push(several(node, running));
  }
  list.push(button('Fork: continue in a new conversation', 'fork', () => app.fork(node), { disabled: running }));
  return h('div', { className: 'actions' }, ...list.filter(Boolean));
}

function several(node, running) {
  return h('select', {
    'aria-label': 'Several replies side by side', title: 'Several replies side by side', disabled: running, className: 'several',
    onchange: (event) => app.reply(node.parent, Number(event.target.value)),
  }, h('option', { value: '' }, 'side by side'), ...[2, 3, 4].map((n) => h('option', { value: n }, `× ${n}`)));
}

// side shows replies side by side.
export function side(nodes) {
  return h('section', { className: `compare of${nodes.length}`, 'aria-label': 'Replies side by side' },
    ...nodes.map((node, i) => view(node, i + 1)));
}

function view(node, column) {
  const key = `${node.id} ${column ?? 0}`;
  let one = views.get(key);
  if (!one) views.set(key, one = new Message(node, column));
  one.update(node);
  return one.element;
}

// showThread shows the conversation.
export function showThread() {
  const c = app.current;
  const thread = byID('thread');
  if (shownOf !== c) {
    views = new Map();
    shownOf = c;
  }
  hideCard();
  const compared = (c.compare ?? []).map((id) => c.nodes[id]).filter(Boolean);
  let nodes = path(c);
  if (compared.length) nodes = nodes.slice(0, nodes.findIndex((node) => node.parent === compared[0].parent));
  const elements = nodes.map((node) => view(node));
  if (compared.length) elements.push(side(compared));
  if (c.showTokens && nodes.some((node) => node.role === 'assistant')) elements.unshift(legend());
  if (!elements.length) elements.push(welcome());
  keep(thread, elements);
}

// keep puts elements in order without moving those already in place, so that the focus is not lost.
export function keep(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, i) => {
    if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
  });
}

// examples are messages to begin with.
const examples = ['Explain in three sentences how a state-space model reads a text.',
  'Write a haiku about a river.', 'List five questions that a good interviewer asks.'];

function welcome() {
  const model = app.model();
  const about = [model?.parameters && `${model.parameters} parameters`, model?.length > 0 && `${count(model.length)} tokens at most`];
  return h('div', { className: 'welcome' },
    h('img', { src: '/assets/hippo.svg', alt: '', width: 56, height: 56 }),
    h('h1', {}, model ? model.name : 'hippo'),
    h('p', { className: 'muted' }, about.filter(Boolean).join(' · ')),
    model?.known && !model.template ? h('p', { className: 'muted' },
      'This model has no chat template: it continues the text, one message per line.')
      : h('ul', { className: 'examples', 'aria-label': 'Examples' }, ...examples.map((text) => h('li', {},
        h('button', { type: 'button', className: 'button', onclick: () => app.tell('suggest', text) }, text)))));
}

// growMessage shows new text of a node.
export function growMessage(node) {
  for (const column of [0, 1, 2, 3, 4]) views.get(`${node.id} ${column}`)?.grow(node);
}

// editLast edits the last message of the user, if there is one.
export function editLast() {
  const last = path(app.current).filter((node) => node.role === 'user').at(-1);
  if (last && !app.turn) views.get(`${last.id} 0`)?.edit(last);
}
