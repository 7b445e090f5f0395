// tip is the note beside the pointer, and what parts need of the window besides.

import { h } from './dom.js';

let note = null;

// showTip shows lines of text beside a place of the window. The first stands out.
export function showTip(x, y, lines) {
  if (!note) {
    note = h('div', { id: 'tip', 'aria-hidden': 'true' });
    document.body.append(note);
  }
  note.replaceChildren(...lines.filter(Boolean).map((line, i) => h(i === 0 ? 'b' : 'span', {}, line)));
  note.hidden = false;
  const box = note.getBoundingClientRect(), gap = 14;
  const left = x + gap + box.width > innerWidth - 4 ? x - gap - box.width : x + gap;
  const top = y + gap + box.height > innerHeight - 4 ? y - gap - box.height : y + gap;
  note.style.left = `${Math.max(4, left)}px`;
  note.style.top = `${Math.max(4, top)}px`;
}

export function hideTip() { if (note) note.hidden = true; }

// onWidth calls f when an element has another width, after the page is laid out.
export function onWidth(element, f) {
  let width = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (element.clientWidth === width || element.clientWidth === 0) return;
    width = element.clientWidth;
    f();
  })).observe(element);
}

addEventListener('scroll', hideTip, { passive: true, capture: true });
