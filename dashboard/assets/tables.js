// tables shows the tables below the charts: the latest values and the settings.

import { byID, h, replace } from './dom.js';
import { inUnit, nameOf, number, sorted } from './measures.js';
import { shortName } from './runs.js';

const column = (text) => h('th', { scope: 'col' }, text);
const row = (text) => h('th', { scope: 'row', title: text }, shortName(text));

// values shows the last value of each measurement of each run.
export function values(runs) {
  const measures = sorted(runs.flatMap((r) => Object.keys(r.curves)));
  byID('latest').hidden = runs.length === 0;
  const reports = runs.some((r) => r.report);
  const last = (run, m) => {
    const of = run.curves[m]?.value;
    return number(of?.length > 0 ? inUnit(m, of.slice(-1))[0] : null);
  };
  replace(byID('values'),
    h('thead', {}, h('tr', {}, ['run', 'step', ...measures.map(nameOf), ...(reports ? ['report'] : [])].map(column))),
    h('tbody', {}, runs.map((r) => h('tr', {}, row(r.id), h('td', {}, number(r.step)),
      measures.map((m) => h('td', {}, last(r, m))),
      reports ? h('td', {}, r.report ? h('a', { href: reportPath(r.id) }, 'report') : null) : null))));
}

function reportPath(id) {
  return '/report/' + id.split('/').map(encodeURIComponent).join('/') + '/';
}

// settings shows the settings of the chosen runs.
export async function settings(ids) {
  byID('differences').hidden = ids.length === 0;
  if (ids.length === 0) return;
  const answer = await fetch('/api/settings?ids=' + ids.map(encodeURIComponent).join('&ids='));
  if (!answer.ok) {
    replace(byID('settings'), h('caption', {}, await answer.text()));
    return;
  }
  const all = await answer.json();
  const only = byID('differing').checked && ids.length > 1;
  const some = all.filter((r) => !only || r.differ);
  if (some.length === 0) {
    replace(byID('settings'), h('caption', {}, only ? 'All settings are the same.' : 'The runs have no settings.'));
    return;
  }
  replace(byID('settings'),
    h('thead', {}, h('tr', {}, column('setting'), ids.map((id) => column(shortName(id))))),
    h('tbody', {}, some.map((r) => h('tr', { className: r.differ ? 'differ' : '' }, h('th', { scope: 'row' }, r.key),
      r.values.map((v) => h('td', {}, v ?? '—'))))));
}
