// rows is the page of a network of hippo fit: rows of data go in, by hand or as a file, and its predictions come out.

import { predict } from './api.js';
import { app } from './app.js';
import { button, byID, h, replace, say } from './dom.js';
import { count } from './format.js';
import { keep } from './thread.js';

// mostShown is the number of predictions that the page shows; all are computed.
const mostShown = 1000;

const forms = new Map(); // by the name of the model

const tasks = {
  classify: 'says which class a sequence has', regress: 'estimates numbers for a sequence', steps: 'estimates something for each row',
  next: 'predicts the next row', forecast: 'forecasts the rows to come', fill: 'fills in missing numbers',
  anomaly: 'says how unexpected each row is',
};

// namesOf returns the columns that rows should have.
export function namesOf(card) {
  const columns = (card.columns ?? []).filter((column) => column.input || column.known).map((column) => column.name);
  return [...new Set([card.time, card.series, ...columns].filter(Boolean))];
}

const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

// about says what the network does and what it wants.
function about(model) {
  const { task, horizon, lookback, series, columns = [] } = model.predict;
  const targets = columns.filter((column) => column.target).map((column) => column.name).join(', ');
  return [
    h('h1', {}, model.name), h('p', { className: 'muted' }, [
      `This network ${tasks[task] ?? `was made for the task ${task}`}${targets ? ` (${targets})` : ''}.`,
      horizon && lookback ? `It sees the last ${count(lookback)} rows and predicts ${count(horizon)}.` : '',
      series ? `Rows of one ${series} are one sequence.` : 'All rows are one sequence, in their order.',
    ].filter(Boolean).join(' ')),
  ];
}

// field returns the input of a column, with its label.
function field(name, card, enter) {
  const column = (card.columns ?? []).find((one) => one.name === name) ?? {};
  const id = `column-${name}`;
  const own = { id, onkeydown: (event) => { if (event.key === 'Enter') enter(); } };
  const input = column.classes?.length ? h('select', own, h('option', { value: '' }, ''), ...column.classes.map((one) => h('option', {}, one)))
    : h('input', { ...own, inputMode: column.kind === 'number' ? 'decimal' : 'text', placeholder: name === card.time ? '2026-04-01 00:00:00' : '' });
  return h('div', { className: 'field' }, h('label', { htmlFor: id }, name, column.unit ? ` (${column.unit})` : ''), input);
}

function form(model) {
  const card = model.predict;
  const names = namesOf(card);
  const header = `${names.map(quoted).join(',')}\n`;
  const text = h('textarea', {
    id: 'rows', rows: 8, value: header, spellcheck: false, className: 'json', 'aria-describedby': 'rows-why', onkeydown: (event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      run();
    },
  });
  const add = () => {
    const start = text.value.trim() ? text.value.replace(/\n?$/, '\n') : header;
    text.value = `${start}${fields.map((one) => quoted(one.querySelector('input, select').value)).join(',')}\n`;
    fields[0]?.querySelector('input, select').focus();
    say('The row is added.');
  };
  const fields = names.map((name) => field(name, card, add));
  const result = h('div', { className: 'predictions' });
  const run = async () => {
    go.disabled = true;
    try {
      const answer = await predict(model.name, text.value);
      replace(result, shown(answer));
      say(`${count(answer.data.length)} predictions.`);
    } catch (error) {
      replace(result, h('p', { className: 'trouble', role: 'alert' }, error.message));
      if (error.status === 401) app.tell('key', run);
    }
    go.disabled = false;
  };
  const go = button('Predict', 'go', run, { words: true, className: 'strong', id: 'predict', title: 'Ctrl+Enter' });
  const element = h('section', { className: 'data', 'aria-label': 'Rows and predictions' }, ...about(model),
    h('fieldset', {}, h('legend', {}, 'One row'), h('div', { className: 'columns' }, ...fields), button('Add the row', 'plus', add, { words: true })),
    h('label', { htmlFor: 'rows' }, 'Rows'), text,
    h('small', { id: 'rows-why' }, 'CSV with a header, or a JSON object per line. Drop a file here, or attach it.'),
    h('div', { className: 'row' }, go, button('Attach a file', 'clip', () => app.tell('choose'), { words: true })), result);
  return { element, take: (file) => { text.value = file.text; text.focus(); } };
}

// shown returns predictions as a table, after what the server notes about the rows.
function shown({ data, notes }) {
  const some = data.slice(0, mostShown);
  const names = [...new Set(some.flatMap(Object.keys))];
  const cell = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
  return [
    notes.length ? h('ul', {}, ...notes.map((note) => h('li', {}, note))) : null,
    data.length > mostShown ? h('p', {}, `The first ${count(mostShown)} of ${count(data.length)} predictions:`) : null,
    h('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': 'Predictions' }, h('table', {},
      h('thead', {}, h('tr', {}, ...names.map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', {}, ...some.map((row) => h('tr', {}, ...names.map((name) => h('td', {}, name in row ? cell(row[name]) : ''))))))),
  ];
}

// showRows shows the page of the chosen network.
export function showRows() {
  const model = app.model();
  if (app.current.kind !== 'rows' || !model?.predict) return;
  if (!forms.has(model.name)) forms.set(model.name, form(model));
  keep(byID('thread'), [forms.get(model.name).element]);
}

app.addEventListener('file', ({ detail: file }) => {
  if (app.current.kind === 'rows') forms.get(app.model().name)?.take(file);
});
