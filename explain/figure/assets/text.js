// text shows tokens, each on the color of its value. Where the panel has links, a token that is picked shows the values
// of all others for it.

import { h, say } from './dom.js';
import { floats } from './data.js';
import { css, inkOn, number, scaleOf, short, visible } from './scale.js';
import { hideTip, showTip } from './tip.js';

const clamp = (v, lo, hi) => Math.min(Math.max(v, lo), hi);

// text makes the panel of tokens.
export function text(first) {
  const said = h('p', { className: 'picked muted', role: 'status' }), bar = h('p', { className: 'range' });
  const box = h('div', {
    className: 'tokens', tabIndex: 0, role: 'group', onkeydown: (e) => key(e),
    onmouseover: (e) => hover(e), onmouseleave: () => hideTip(), onclick: (e) => pick(indexOf(e.target)),
  });
  const element = h('div', { className: 'text' }, said, box, bar);
  let t = first.text, title = first.title, values, links, scale, picked = -1, at = -1, spans = [], marked;

  const indexOf = (target) => (target.dataset?.i === undefined ? -1 : Number(target.dataset.i));

  function read() {
    values = floats(t.values);
    links = t.links && { ...t.links, values: floats(t.links.values) };
    element.classList.toggle('clickable', Boolean(links));
    box.setAttribute('aria-label', `${short(title) || 'Text'}: ${t.tokens?.length ?? 0} tokens. Arrow keys read them` +
      `${links ? ', Enter picks one' : ''}.`);
  }

  // shown is the value of token i now: its own, or that for the picked one.
  function shown(i) {
    if (picked < 0) return values.length ? values[i] : NaN;
    const row = Math.floor(picked / Math.max(links.row_step || 1, 1));
    return links.values[row * links.cols + Math.floor(i / Math.max(links.col_step || 1, 1))];
  }

  function build() {
    read();
    spans = (t.tokens ?? []).map((token, i) => {
      const span = h('span', { className: 'token' }, token === '' ? '∅' : short(token, 200));
      span.dataset.i = i;
      return span;
    });
    box.replaceChildren(...spans.flatMap((span, i) => (t.tokens[i].endsWith('\n') ? [span, h('br')] : [span])));
    color();
  }

  function color() {
    if (picked < 0) {
      scale = scaleOf(values, t);
    } else {
      const row = Math.floor(picked / Math.max(links.row_step || 1, 1));
      scale = scaleOf(links.values.subarray(row * links.cols, (row + 1) * links.cols), { ...links, min: links.min, max: links.max });
    }
    const paints = scale.colors.map((rgb) => [css(rgb), inkOn(rgb)]), bare = ['', ''];
    spans.forEach((span, i) => {
      const v = shown(i);
      [span.style.backgroundColor, span.style.color] = Number.isNaN(v) ? bare : paints[Math.round(scale.place(v) * 255)];
    });
    marked?.classList.remove('mark');
    marked = spans[picked < 0 ? t.mark : picked];
    marked?.classList.add('mark');
    said.textContent = picked < 0 ? links ? 'Pick a token to see its row.' : ''
      : `For token ${picked}, “${short(t.tokens[picked])}”. Pick it again for all.`;
    said.hidden = said.textContent === '';
    const unit = short((picked < 0 ? t : links).unit), lo = scale.diverging ? -scale.hi : scale.lo;
    bar.hidden = spans.length === 0 || (picked < 0 && values.length === 0);
    const colors = h('span', { className: 'colors' });
    colors.style.backgroundImage = `linear-gradient(to right, ${[0, 32, 64, 96, 128, 160, 192, 224, 255].map((i) => css(scale.colors[i])).join(', ')})`;
    bar.replaceChildren(number(lo), colors, `${number(scale.hi)} ${unit}`);
  }

  const words = (i) => [`“${short(t.tokens[i], 120)}”`, `token ${i}`,
    Number.isFinite(shown(i)) ? `${number(shown(i))} ${short((picked < 0 ? t : links).unit)}` : '',
    ...(t.notes?.[i] ? t.notes[i].slice(0, 2000).split('\n').map(visible) : [])];

  function hover(e) {
    const i = indexOf(e.target);
    if (i < 0) hideTip();
    else showTip(e.clientX, e.clientY, words(i));
  }

  function pick(i) {
    if (!links || i < 0) return;
    picked = i === picked ? -1 : i;
    color();
  }

  function key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 }[e.key];
    if (e.key === 'Enter' && at >= 0) pick(at);
    if (e.key === 'Escape' && picked >= 0) pick(picked);
    if (!step || spans.length === 0) return;
    e.preventDefault();
    e.stopPropagation();
    spans[at]?.classList.remove('at');
    at = clamp(at + step, 0, spans.length - 1);
    spans[at].classList.add('at');
    spans[at].scrollIntoView({ block: 'nearest' });
    const edge = spans[at].getBoundingClientRect();
    showTip(edge.right, edge.bottom, words(at));
    say(words(at).join(', '));
  }

  return {
    element,
    draw: build,
    update(next) {
      const before = t.tokens ?? [];
      t = next.text;
      title = next.title;
      if (!t.links || picked >= (t.tokens?.length ?? 0)) picked = -1;
      const same = before.length === (t.tokens?.length ?? 0) && before.every((token, i) => token === t.tokens[i]);
      if (!same || spans.length === 0) {
        build();
        return;
      }
      read();
      color();
    },
  };
}
