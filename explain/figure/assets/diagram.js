// diagram draws boxes and arrows.

import { h, s } from './dom.js';
import { isDark, lineColor, short } from './scale.js';
import { hideTip, showTip } from './tip.js';

// The distance of two boxes that are 1 apart, and the part of it that a box takes, as in drawdiagram.go.
const stepX = 150, stepY = 72, partX = 0.82, partY = 0.66;

let count = 0; // names of arrow heads are unique on a page

// diagram makes the panel of a diagram.
export function diagram(first) {
  const element = h('div', { className: 'diagram wide', tabIndex: 0, role: 'group' });
  const arrow = `arrow${count++}`;
  let panel = first;

  function build() {
    const { nodes, edges } = panel.diagram, all = nodes ?? [];
    const [x0, y0] = [Math.min(...all.map((n) => n.x)), Math.min(...all.map((n) => n.y))];
    const width = (Math.max(...all.map((n) => n.x)) - x0 + 1) * stepX || 1, height = (Math.max(...all.map((n) => n.y)) - y0 + 1) * stepY || 1;
    const places = new Map(all.map((n) => [n.id, [(n.x - x0 + 0.5) * stepX, (n.y - y0 + 0.5) * stepY]]));
    const kinds = [...new Set(all.map((n) => n.kind ?? ''))];
    const picture = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' },
      s('defs', {}, s('marker', { id: arrow, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto-start-reverse' },
        s('path', { d: 'M0 0L8 4L0 8z', class: 'head' }))),
      ...(edges ?? []).map((e) => edge(places.get(e.from), places.get(e.to), e.label)),
      ...all.map((n) => node(n, places.get(n.id), kinds.indexOf(n.kind ?? ''))));
    picture.style.minWidth = `${width * 0.6}px`; // a wider one is moved, so that its letters stay readable
    element.replaceChildren(picture);
    element.setAttribute('aria-label', `${short(panel.title) || 'Diagram'}: ${all.slice(0, 40).map((n) => short(n.label)).join(', ')}`);
  }

  function edge([x0, y0], [x1, y1], label) {
    const dx = x1 - x0, dy = y1 - y0;
    if (dx === 0 && dy === 0) return null;
    const inside = Math.min(stepX * partX / 2 / Math.max(Math.abs(dx), 1e-9), stepY * partY / 2 / Math.max(Math.abs(dy), 1e-9), 0.5);
    const lies = Math.abs(dx) > Math.abs(dy); // then its label stands above it
    const at = (t) => [x0 + dx * t, y0 + dy * t];
    const [a, b] = [at(inside), at(1 - inside)];
    return s('g', { class: 'edge' }, s('path', { d: `M${a}L${b}`, 'marker-end': `url(#${arrow})` }),
      label ? s('text', lies ? { x: (x0 + x1) / 2, y: (y0 + y1) / 2 - 9 } : { x: (x0 + x1) / 2 + 6, y: (y0 + y1) / 2, class: 'beside' },
        short(label)) : null);
  }

  function node(n, [x, y], kind) {
    const lines = String(n.label).slice(0, 400).split('\n').slice(0, 4);
    const place = { x: x - stepX * partX / 2, y: y - stepY * partY / 2, width: stepX * partX, height: stepY * partY, rx: 7 };
    const box = s('rect', place);
    box.style.fill = lineColor(kind);
    box.style.fillOpacity = isDark() ? 0.34 : 0.2;
    box.style.stroke = lineColor(kind);
    const tip = (e) => showTip(e.clientX, e.clientY, [short(n.label, 200), ...(n.note ? n.note.slice(0, 2000).split('\n').map((line) => short(line, 300)) : [])]);
    return s('g', { class: 'node', onmousemove: tip, onmouseleave: hideTip }, s('rect', { ...place, class: 'ground' }), box,
      ...lines.map((line, i) => s('text', { x, y: y + (i - (lines.length - 1) / 2) * 14 }, short(line, 22))));
  }

  return {
    element,
    draw: build,
    update(next) {
      panel = next;
      build();
    },
  };
}
