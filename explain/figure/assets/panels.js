// panels makes the parts of a figure, by their kinds. Each part has its element, draw, which draws it anew, and update,
// which shows the panel of another frame.

import { h } from './dom.js';
import { bars } from './bars.js';
import { diagram } from './diagram.js';
import { lines } from './lines.js';
import { map } from './map.js';
import { visible } from './scale.js';
import { text } from './text.js';

// table makes the panel of a table.
function table(first) {
  const element = h('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': visible(first.title) || 'Table' });
  const isNumber = (cell) => /^[+\-−±~<>≤≥ ]*(\d|$|—|nan|inf)/i.test(cell);
  const build = (panel) => {
    const { columns, rows } = panel.table, all = rows ?? [];
    const right = (columns ?? []).map((_, c) => all.length > 0 && all.every((row) => isNumber(row[c])));
    const cell = (tag, texts) => texts.map((text, c) => h(tag, { className: right[c] ? 'right' : '', scope: tag === 'th' ? 'col' : null }, visible(text)));
    element.replaceChildren(h('table', {}, h('thead', {}, h('tr', {}, cell('th', columns ?? []))),
      h('tbody', {}, all.map((row) => h('tr', {}, cell('td', row))))));
  };
  return { element, draw: () => build(first), update: (next) => { first = next; build(next); } };
}

const kinds = { lines, map, bars, text, diagram, table };

// part makes a panel with its title. A map's rows appear below it.
export function part(panel) {
  const title = h('h3', {}), below = h('div', { className: 'row' });
  let row = null;
  const showRow = (shown) => {
    const kind = shown && (shown.text ? 'text' : 'lines');
    if (!shown || row?.kind !== kind) {
      row = null;
      below.replaceChildren();
    }
    if (!shown) return;
    if (row) {
      row.name.textContent = visible(shown.title);
      row.inside.update(shown);
      return;
    }
    row = { kind, inside: kinds[kind](shown), name: h('h4', {}, visible(shown.title)) };
    below.replaceChildren(row.name, row.inside.element);
    row.inside.draw();
  };
  const kind = Object.keys(kinds).find((name) => panel[name]);
  const inside = kinds[kind](panel, showRow);
  const name = (p) => {
    title.textContent = visible(p.title);
    title.hidden = !p.title;
  };
  name(panel);
  return {
    element: h('div', { className: `panel ${kind}-panel` }, title, inside.element, below),
    draw() {
      inside.draw();
      row?.inside.draw();
    },
    update(next) {
      name(next);
      inside.update(next);
    },
  };
}
