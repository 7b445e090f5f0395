// branches draws a conversation as a tree: one row for each level, the chosen branch in color.

import { app } from './app.js';
import { h, s } from './dom.js';
import { children, path } from './tree.js';

const step = { x: 26, y: 30 };

// branches appends the drawing to an element.
export function branches(body) {
  const c = app.current;
  const places = [];
  const lines = [];
  let columns = 0;
  // Without recursion, since a conversation may be deeper than the call stack allows.
  const stack = children(c, '').reverse().map((node) => ({ node, depth: 0, from: null }));
  while (stack.length) {
    const { node, depth, from } = stack.pop();
    const kids = children(c, node.id);
    const straight = from && from.depth === depth - 1 && !from.used;
    if (from) from.used = true;
    const place = { node, depth, column: straight ? from.column : columns++ };
    places.push(place);
    if (from) lines.push([from, place]);
    for (const kid of kids.reverse()) stack.push({ node: kid, depth: depth + 1, from: place });
  }
  if (!places.length) {
    body.append(h('p', { className: 'muted' }, 'There is nothing yet. Edit a message or ask for another reply, and the conversation branches.'));
    return;
  }
  const on = new Set(path(c).map((node) => node.id));
  const x = (place) => 16 + place.column * step.x;
  const y = (place) => 16 + place.depth * step.y;
  const deepest = Math.max(...places.map((place) => place.depth));
  const width = Math.max(200, 32 + columns * step.x);
  const drawing = s('svg', {
    class: 'branching', width, height: 32 + deepest * step.y, viewBox: `0 0 ${width} ${32 + deepest * step.y}`,
    role: 'group', 'aria-label': `Tree of ${places.length} messages`,
  });
  for (const [a, b] of lines) {
    drawing.append(s('path', {
      class: on.has(a.node.id) && on.has(b.node.id) ? 'on' : '',
      d: `M${x(a)} ${y(a)}C${x(a)} ${y(a) + 18} ${x(b)} ${y(b) - 18} ${x(b)} ${y(b)}`,
    }));
  }
  for (const place of places) drawing.append(spot(place, on, x(place), y(place)));
  body.append(h('p', { className: 'muted' }, 'Squares are yours, circles are replies. Click one to go there.'),
    h('div', { className: 'wide' }, drawing));
}

function spot({ node }, on, x, y) {
  const called = (node.calls ?? []).map((call) => `calls ${call.function.name}`);
  const words = [node.content, ...called].join(' ').trim().replace(/\s+/g, ' ').slice(0, 80);
  const who = { user: 'You', tool: `Result of ${node.name}` }[node.role] ?? 'Reply';
  const name = `${who}: ${words || '(nothing)'}`;
  const go = () => app.pick(node.id);
  const shape = node.role !== 'assistant' ? s('rect', { x: x - 6, y: y - 6, width: 12, height: 12, rx: 3 })
    : s('circle', { cx: x, cy: y, r: 6.5 });
  return s('g', {
    class: `spot ${on.has(node.id) ? 'on' : ''}`, id: `spot-${node.id}`, role: 'button', tabindex: 0, 'aria-label': name,
    'aria-pressed': String(on.has(node.id)), onclick: go,
    onkeydown: (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      go();
    },
  }, s('title', {}, name), s('circle', { class: 'reach', cx: x, cy: y, r: 12 }), shape);
}
