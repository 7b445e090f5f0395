// main updates the page every two seconds while it is visible.

import * as charts from './charts.js';
import { button, byID, say } from './dom.js';
import * as list from './runs.js';
import { samples } from './samples.js';
import { settings, values } from './tables.js';
import { nextTheme } from './theme.js';

const every = 2000; // milliseconds
const known = new Map(); // by run: {tag, data}
let compared = '';

// load updates the measurements of a run and reports whether there was anything new.
async function load(id) {
  const before = known.get(id);
  const answer = await fetch(`/api/run?id=${encodeURIComponent(id)}`, {
    cache: 'no-store', headers: before ? { 'If-None-Match': before.tag } : {},
  });
  if (answer.status === 304) return false;
  if (!answer.ok) throw new Error(await answer.text());
  known.set(id, { tag: answer.headers.get('ETag'), data: await answer.json() });
  return true;
}

function draw() {
  const runs = list.chosen.map((id) => known.get(id)?.data).filter(Boolean);
  const weight = Number(byID('smooth').value);
  byID('smoothed').textContent = String(weight);
  charts.draw(runs, { x: byID('x').value, smooth: weight, log: byID('log').checked });
  values(runs);
  samples(runs);
  const ids = runs.map((r) => r.id), key = JSON.stringify([ids, byID('differing').checked]);
  if (key !== compared) {
    compared = key;
    settings(ids).catch(complain);
  }
}

// complain shows an error, or removes it if there is none.
function complain(problem) {
  const empty = byID('empty'), text = problem ? String(problem.message ?? problem) : '';
  empty.hidden = !problem;
  if (empty.textContent !== text) empty.textContent = text;
}

async function update() {
  try {
    const answer = await fetch('/api/runs', { cache: 'no-store' });
    if (!answer.ok) throw new Error(await answer.text());
    const { runs, more } = await answer.json();
    const before = list.chosen.join();
    list.show(runs, more);
    const changed = await Promise.all(list.chosen.map(load));
    if (changed.some(Boolean) || before !== list.chosen.join()) draw();
    complain(runs.length > 0 ? null : 'There are no runs yet. Start one with hippo train: it appears here.');
  } catch (err) {
    complain(err instanceof TypeError ? 'The dashboard does not respond. Is hippo ui still running?' : err);
  }
}

// choose loads and draws the chosen runs.
async function choose() {
  try {
    await Promise.all(list.chosen.map(load));
  } catch (err) {
    complain(err);
  }
  draw();
}

byID('controls').append(button('Light or dark', 'theme', () => { say(`Theme: ${nextTheme()}`); draw(); }, { id: 'theme' }));
for (const id of ['x', 'smooth', 'log', 'differing']) byID(id).addEventListener('input', draw);
byID('controls').addEventListener('submit', (event) => event.preventDefault());
byID('filter').addEventListener('input', list.draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
addEventListener('hashchange', () => { list.readAddress(); list.draw(); choose(); });
list.onChange(choose);
list.readAddress();
for (;;) {
  if (!document.hidden) await update();
  await new Promise((done) => { setTimeout(done, every); });
}
