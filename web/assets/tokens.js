// tokens shows a text with its tokens colored by their probability, and the alternatives of each. The scale is one
// color of increasing strength, and the least probable tokens are underlined, so that it can be read without telling
// colors apart.

import { h, say } from './dom.js';
import { percent } from './format.js';

const levels = [
  [0.9, 'at least 90 %'], [0.5, 'at least 50 %'], [0.2, 'at least 20 %'], [0.05, 'at least 5 %'], [0.01, 'at least 1 %'],
  [0, 'less'],
];

const level = (logprob) => levels.findIndex(([least]) => Math.exp(logprob) >= least);

// bits is the surprise of a token, -log2 of its probability p.
const bits = (p) => (-Math.log2(p)).toFixed(1);

// legend explains the colors: the probability of a token, and its surprise in bits.
export function legend() {
  return h('div', { className: 'legend', role: 'group', 'aria-label': 'Colors of tokens' },
    h('span', { id: 'legend-title' }, 'Probability of a token, and its surprise in bits'),
    h('ul', { 'aria-labelledby': 'legend-title' }, ...levels.map(([least, words], i) => h('li', {},
      h('span', { className: `token level${i}` }, words), h('span', {}, least ? ` ≤ ${bits(least)}` : ` > ${bits(levels[i - 1][0])}`)))));
}

const rawBytes = /^bytes:((?:\\x[0-9a-f]{2})+)$/;

// join combines tokens that are parts of one character; its probability is the product of theirs.
function join(tokens) {
  const joined = [];
  let pending = [];
  let held = [];
  const flush = () => {
    joined.push(...held);
    pending = [];
    held = [];
  };
  for (const [text, logprob, top] of tokens) {
    const raw = rawBytes.exec(text);
    if (!raw) {
      flush();
      joined.push({ text, logprob, top });
      continue;
    }
    const codes = raw[1].slice(2).split('\\x').map((x) => parseInt(x, 16));
    pending.push(...codes);
    held.push({
      text: codes.map((x) => `‹${x.toString(16).padStart(2, '0')}›`).join(''), written: '\ufffd'.repeat(codes.length), logprob, top,
    });
    try {
      const whole = new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(pending));
      const sum = held.reduce((total, one) => total + one.logprob, 0);
      joined.push({ text: whole, logprob: sum, top: held.length === 1 ? top : [], parts: held.length });
      pending = [];
      held = [];
    } catch {
      if (pending.length >= 4) flush(); // no character has more bytes
    }
  }
  flush();
  return joined;
}

// textOf returns the text of tokens as the server writes it: each byte that is not part of a character is U+FFFD.
export const textOf = (tokens) => join(tokens).map((token) => token.written ?? token.text).join('');

// isText reports whether a token is text by itself, not part of a character.
export const isText = ([text]) => !rawBytes.test(text);

// visible returns a text with its white space made visible.
const visible = (text) => text.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/^ | $/g, '␣') || '(nothing)';

const card = h('div', { id: 'alternatives', className: 'card', role: 'tooltip', hidden: true });

function showCard(at, token, takes) {
  const rows = (token.top.length ? token.top : [[token.text, token.logprob]]).map(([text, logprob], i) => {
    const bar = h('span', { className: 'bar' }, h('span', { className: 'filled' }));
    bar.firstChild.style.width = `${Math.max(1, Math.exp(logprob) * 100)}%`;
    const same = text === token.text;
    return h('tr', { className: same ? 'drawn' : '' },
      takes && token.top.length ? h('td', { className: 'number' }, i + 1) : null,
      h('th', { scope: 'row' }, visible(text), same ? h('span', { className: 'hidden' }, ' (drawn)') : null),
      h('td', {}, bar), h('td', { className: 'number' }, percent(Math.exp(logprob))));
  });
  const drawn = token.top.length && !token.top.some(([text]) => text === token.text);
  if (drawn) {
    rows.push(h('tr', { className: 'drawn' }, takes ? h('td') : null, h('th', { scope: 'row' }, visible(token.text)), h('td'),
      h('td', { className: 'number' }, percent(Math.exp(token.logprob)))));
  }
  card.replaceChildren(h('table', {}, h('tbody', {}, ...rows)));
  if (token.parts > 1) card.append(h('p', {}, `${token.parts} tokens form this character.`));
  if (takes && token.top.length) card.append(h('p', {}, `Click or Enter continues with the next best token; 1 to ${token.top.length} with that one.`));
  card.hidden = false;
  document.body.append(card);
  const box = at.getClientRects()[0] ?? at.getBoundingClientRect();
  const own = card.getBoundingClientRect();
  const below = box.bottom + 6 + own.height < innerHeight;
  card.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
  card.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - own.height - 6)}px`;
}

export function hideCard() { card.hidden = true; }

addEventListener('scroll', hideCard, true);

// TokenText is an element that shows tokens; more can be added. The arrow keys move from token to token. take, if
// given, is called with the position of a token that the user wants to replace, and its replacement.
export class TokenText {
  constructor(take) {
    this.element = h('div', {
      className: 'tokens', dir: 'auto', role: 'group', tabIndex: 0,
      'aria-label': 'Tokens with probabilities. The arrow keys go from token to token.',
      onmouseover: (event) => this.show(event.target), onmouseout: hideCard, onblur: () => this.mark(null),
      onkeydown: (event) => this.key(event), onclick: (event) => this.take(event.target),
    });
    this.taken = take;
    this.shown = 0;
    this.marked = null;
  }

  update(tokens) {
    if (tokens.length < this.shown) {
      this.element.replaceChildren();
      this.shown = 0;
    }
    // The last tokens may be parts of a character: redo the joining from the last whole token.
    let from = this.shown;
    while (from > 0 && rawBytes.test(tokens[from - 1][0])) from--;
    if (from !== this.shown) {
      while (Number(this.element.lastChild?.dataset.at) >= from) this.element.lastChild.remove();
    }
    let at = from;
    for (const token of join(tokens.slice(from))) {
      const span = h('span', {
        className: token.logprob === null ? 'token' : `token level${level(token.logprob)}`,
      }, token.text.replace(/\n/g, '⏎\n'));
      span.dataset.at = at;
      span.token = token;
      at += token.parts ?? 1;
      this.element.append(span);
    }
    this.shown = tokens.length;
  }

  show(span) {
    if (span.token && span.token.logprob !== null) showCard(span, span.token, this.taken);
  }

  mark(span) {
    this.marked?.classList.remove('marked');
    this.marked = span;
    hideCard();
    if (!span) return;
    span.classList.add('marked');
    span.scrollIntoView({ block: 'nearest' });
    this.show(span);
    const { text, logprob, top } = span.token;
    const others = top.filter(([other]) => other !== text).slice(0, 3);
    say(logprob === null ? visible(text) : `${visible(text)}, ${percent(Math.exp(logprob))}. Instead: ${
      others.map(([other, p]) => `${visible(other)}, ${percent(Math.exp(p))}`).join('; ')}`);
  }

  key(event) {
    const spans = this.element.children;
    const next = {
      ArrowRight: this.marked?.nextSibling ?? spans[0], ArrowLeft: this.marked?.previousSibling ?? spans[0],
      Home: spans[0], End: spans[spans.length - 1],
    }[event.key];
    if (next) {
      event.preventDefault();
      this.mark(next);
    } else if (event.key === 'Enter' && this.marked) {
      event.preventDefault();
      this.take(this.marked);
    } else if (/^[1-9]$/.test(event.key) && this.marked?.token.top.length >= Number(event.key)) {
      event.preventDefault();
      this.take(this.marked, Number(event.key) - 1);
    } else if (event.key === 'Escape' && this.marked) {
      event.stopPropagation();
      this.mark(null);
    }
  }

  // take replaces a token by one of its alternatives, by default the most probable one that was not drawn.
  take(span, which) {
    if (!this.taken || !span.token?.top.length) return;
    const { text, top } = span.token;
    const other = top[which] ?? top.find((one) => one[0] !== text && isText(one));
    if (other) this.taken(Number(span.dataset.at), other);
  }
}
