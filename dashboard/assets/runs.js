// runs is the list of runs and the choice among them. The choice is part of the address, so that it can be bookmarked
// and shared.

import { byID, h } from './dom.js';
import { count } from './format.js';
import { number } from './measures.js';

// Okabe and Ito's colors, which color-blind people can tell apart, without yellow. Dashes distinguish more runs.
const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7f7f7f'];
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const most = colors.length * dashes.length;

export const chosen = []; // ids of the chosen runs, in the order of their colors
let runs = [];
let folder = ''; // the common folder of all runs
let changed = () => {};

export function onChange(f) { changed = f; }

export function styleOf(id) {
  const i = Math.max(0, chosen.indexOf(id));
  return { color: colors[i % colors.length], dash: dashes[Math.floor(i / colors.length) % dashes.length] };
}

// shortName returns the id of a run without the common folder of all runs.
export const shortName = (id) => (id.startsWith(folder) ? id.slice(folder.length) : id);

// common returns the common folder of all runs, with a slash at its end.
function common(ids) {
  if (ids.length === 0) return '';
  const parts = ids[0].split('/').slice(0, -1);
  while (parts.length > 0 && !ids.every((id) => id.startsWith(parts.join('/') + '/'))) parts.pop();
  return parts.length > 0 ? parts.join('/') + '/' : '';
}

export function readAddress() {
  chosen.length = 0;
  for (const id of location.hash.slice(1).split('&').filter(Boolean).slice(0, most)) {
    try { chosen.push(decodeURIComponent(id)); } catch { /* an address typed by hand */ }
  }
}

function writeAddress() {
  history.replaceState(null, '', '#' + chosen.map(encodeURIComponent).join('&'));
}

// show takes a new list of runs. If no run is chosen yet, it chooses the one changed last.
export function show(list, more) {
  runs = list;
  const ids = runs.map((r) => r.id), before = chosen.length;
  folder = common(ids);
  for (let i = chosen.length - 1; i >= 0; i--) if (!ids.includes(chosen[i])) chosen.splice(i, 1);
  if (chosen.length === 0 && runs.length > 0 && (before > 0 || location.hash === '')) chosen.push(ids[0]);
  byID('more').textContent = more > 0 ? `and ${count(more)} older ones` : '';
  const live = runs.filter((r) => r.state === 'running').length;
  const text = live > 0 ? `${live} running` : '';
  if (byID('live').textContent !== text) byID('live').textContent = text;
  draw();
}

// draw updates the list. Existing rows stay in the document, so that the focus is not lost.
export function draw() {
  const list = byID('runs'), wanted = byID('filter').value.toLowerCase();
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  let at = null;
  for (const run of runs) {
    if (!run.id.toLowerCase().includes(wanted)) continue;
    const row = rows.get(run.id) ?? newRow(run.id);
    rows.delete(run.id);
    fill(row, run);
    const place = at ? at.nextSibling : list.firstChild;
    if (row !== place) list.insertBefore(row, place);
    at = row;
  }
  for (const row of rows.values()) row.remove();
}

function newRow(id) {
  const box = h('input', {
    type: 'checkbox', onchange: () => {
      const i = chosen.indexOf(id);
      if (box.checked && i < 0 && chosen.length < most) chosen.push(id);
      if (!box.checked && i >= 0) chosen.splice(i, 1);
      writeAddress();
      draw();
      changed();
    },
  });
  const row = h('li', {}, h('label', { title: id }, box, h('span', { className: 'name' }),
    h('span', { className: 'about' }), h('progress', { max: 1, hidden: true })));
  row.dataset.id = id;
  return row;
}

function fill(row, run) {
  const on = chosen.includes(run.id), name = shortName(run.id);
  const [box, title, about, bar] = row.firstChild.children;
  row.className = on ? 'chosen' : '';
  box.checked = on;
  box.disabled = !on && chosen.length >= most;
  box.style.accentColor = on ? styleOf(run.id).color : '';
  if (title.textContent !== name) title.textContent = name;
  const steps = run.steps > run.step ? `${count(run.step)} of ${count(run.steps)} steps` : `${count(run.step)} steps`;
  const score = run.valid_accuracy !== undefined ? `${number(run.valid_accuracy)} % right` :
    run.valid_loss !== undefined ? `valid ${number(run.valid_loss)}` :
      run.loss !== undefined ? `loss ${number(run.loss)}` : null;
  about.replaceChildren(h('span', { className: run.state }, run.state), [' · ' + steps, score].filter(Boolean).join(' · '));
  bar.hidden = run.state !== 'running' || run.done === undefined;
  if (!bar.hidden) {
    bar.value = run.done;
    bar.setAttribute('aria-label', `${name}: ${Math.floor(run.done * 100)} % done`);
  }
}
