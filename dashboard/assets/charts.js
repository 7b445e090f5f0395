// charts draws the curves of the chosen runs: one chart for losses, one for each other measurement.

import uPlot from './uplot/uPlot.js';
import { byID, h } from './dom.js';
import { duration, inUnit, nameOf, number, sorted } from './measures.js';
import { shortName, styleOf } from './runs.js';

const losses = ['loss', 'valid_loss'];
const left = ['train_loss', 'epoch']; // shown by other curves

const charts = new Map(); // by measurement: {figure, legend, plot, kind, lines}
const sync = uPlot.sync('runs');

// smooth returns the exponential moving average of values, corrected for its start.
function smooth(values, weight) {
  let sum = 0, norm = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = weight * sum + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

// draw draws runs, [{id, curves}], with the options {x, smooth, log}.
export function draw(runs, options) {
  const found = sorted(runs.flatMap((r) => Object.keys(r.curves))).filter((m) => !left.includes(m));
  const parts = found.filter((m) => !losses.includes(m)).map((m) => [m, [m]]);
  if (parts.length < found.length) parts.unshift(['loss', found.filter((m) => losses.includes(m))]);
  for (const [key, chart] of charts) {
    if (!parts.some(([k]) => k === key)) {
      chart.plot?.destroy();
      chart.figure.remove();
      charts.delete(key);
    }
  }
  for (const [i, [key, measures]] of parts.entries()) {
    if (!charts.has(key)) charts.set(key, newChart(key));
    const chart = charts.get(key), place = byID('curves').children[i] ?? null;
    if (chart.figure !== place) byID('curves').insertBefore(chart.figure, place);
    one(chart, measures, runs, options);
  }
}

// one draws or updates a chart.
function one(chart, measures, runs, options) {
  const lines = [];
  for (const run of runs) {
    for (const m of measures) {
      const c = run.curves[m];
      if (!c || c.value.length === 0) continue;
      const noisy = options.smooth > 0 && (m === 'loss' || m === 'grad_norm' || m.endsWith('_per_s'));
      const part = measures.length > 1 ? m === 'loss' ? 'training' : 'validation' : '';
      const x = options.x === 'step' ? c.step : c.seconds;
      const line = { run: run.id, part, x, y: inUnit(m, c.value), points: m.startsWith('valid') };
      if (noisy) lines.push({ ...line, faint: true }, { ...line, y: smooth(line.y, options.smooth) });
      else lines.push(line);
    }
  }
  const logarithmic = options.log && measures.some((m) => losses.includes(m)) &&
    lines.every((l) => l.y.every((v) => v === null || v > 0));
  const style = getComputedStyle(document.documentElement);
  const kind = JSON.stringify([lines.map((l) => [l.run, shortName(l.run), l.part, styleOf(l.run), l.faint]), logarithmic,
    options.x, style.getPropertyValue('--fg')]);
  const data = lines.length === 0 ? [[]] : uPlot.join(lines.map((l) => unique(l.x, l.y)));
  chart.lines = lines;
  if (chart.kind === kind) {
    chart.plot.setData(data, !zoomed(chart.plot));
  } else {
    chart.plot?.destroy();
    chart.kind = kind;
    chart.plot = new uPlot(look(chart, logarithmic, options.x, style), data, chart.figure);
  }
  showLegend(chart);
  chart.figure.setAttribute('aria-label', summary(chart, options.x));
}

// zoomed reports whether the user has zoomed in, so that new data must not change the view.
function zoomed(plot) {
  const x = plot.data[0], s = plot.scales.x;
  return x.length > 1 && s.min !== null && (s.min > x[0] || s.max < x[x.length - 1]);
}

// unique returns points with increasing x: of points with the same x the last.
function unique(x, y) {
  const ux = [], uy = [];
  for (let i = 0; i < x.length; i++) {
    if (ux.length > 0 && x[i] <= ux[ux.length - 1]) {
      if (x[i] === ux[ux.length - 1]) uy[uy.length - 1] = y[i];
      continue;
    }
    ux.push(x[i]);
    uy.push(y[i]);
  }
  return [ux, uy];
}

function newChart(key) {
  const legend = h('p', { className: 'legend', 'aria-hidden': 'true' }); // the figure's label has the same text
  const name = key === 'loss' ? 'loss' : nameOf(key);
  const figure = h('figure', { tabIndex: 0, role: 'group', onkeydown: (event) => move(chart, event) },
    h('figcaption', {}, h('span', {}, name), h('span', { className: 'at muted' })), legend);
  const chart = { key, name, figure, legend, lines: [] };
  figure.dataset.measure = key;
  new ResizeObserver(() => chart.plot?.setSize(size(chart))).observe(figure);
  return chart;
}

// move moves the cursor of a chart with the arrow keys; Escape zooms out.
function move({ plot }, event) {
  if (!plot) return;
  const x = plot.data[0], step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
  if (event.key === 'Escape' && x.length > 0) plot.setData(plot.data, true);
  if (!step || x.length === 0) return;
  event.preventDefault();
  const i = Math.min(x.length - 1, Math.max(0, (plot.cursor.idx ?? x.length - 1) + step));
  plot.setCursor({ left: plot.valToPos(x[i], 'x'), top: plot.over.clientHeight / 2 });
}

function size(chart) {
  const style = getComputedStyle(chart.figure);
  const inside = chart.figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return { width: Math.max(120, inside), height: chart.key === 'loss' ? 320 : 190 };
}

// look returns uPlot's options for a chart.
function look(chart, logarithmic, x, style) {
  const color = (name) => style.getPropertyValue(name).trim();
  const lines = { stroke: color('--line'), width: 1 };
  const axis = { stroke: color('--muted'), grid: lines, ticks: { ...lines, size: 4 }, font: `12px ${color('--sans')}` };
  return {
    ...size(chart),
    legend: { show: false },
    scales: { x: { time: false }, y: { distr: logarithmic ? 3 : 1 } },
    cursor: { sync: { key: sync.key }, drag: { x: true, y: false }, points: { size: 7 } },
    hooks: { setCursor: [() => showLegend(chart)] },
    padding: [8, 24, 0, 0],
    axes: [
      { ...axis, size: 32, space: x === 'step' ? 60 : 80, values: (_, at) => at.map(x === 'step' ? number : duration) },
      { ...axis, size: 58, space: 36, values: (_, at) => at.map((v) => (v === null ? '' : number(v))) },
    ],
    series: [
      { label: x },
      ...chart.lines.map((l) => {
        const s = styleOf(l.run);
        return {
          label: l.part, stroke: l.faint ? `${s.color}50` : s.color, width: l.faint ? 1 : 2, spanGaps: true,
          dash: l.part === 'validation' ? [6, 4] : s.dash, points: { show: l.points, size: 6, fill: s.color },
        };
      }),
    ],
  };
}

// showLegend lists the lines of a chart with their values at the cursor, or else the last ones.
function showLegend(chart) {
  const { plot, lines, legend, figure } = chart;
  if (!plot) return; // not created yet
  const [x, ...values] = plot.data;
  const at = plot.cursor.left >= 0 ? plot.cursor.idx : null;
  const time = plot.series[0].label === 'seconds';
  figure.querySelector('.at').textContent = at === null || at === undefined || x[at] === undefined ? '' :
    time ? `at ${duration(x[at])}` : `at step ${number(x[at])}`;
  legend.replaceChildren(...lines.map((l, i) => [l, values[i] ?? []]).filter(([l]) => !l.faint).map(([l, v]) => {
    const style = styleOf(l.run);
    const mark = h('span', { className: l.part === 'validation' ? 'mark dashed' : 'mark' });
    mark.style.color = style.color;
    return h('span', { className: 'line', title: l.run }, mark, `${[shortName(l.run), l.part].filter(Boolean).join(' · ')} `,
      h('b', {}, number(nearest(v, at ?? v.length - 1))));
  }));
}

// nearest returns the value at an index or the last one before it, since runs are measured at different steps.
function nearest(values, at) {
  while (at > 0 && (values[at] === null || values[at] === undefined)) at--;
  return values[at];
}

// summary describes a chart in words.
function summary(chart, x) {
  const said = chart.lines.filter((l) => !l.faint).map((l) => {
    const name = [shortName(l.run), l.part].filter(Boolean).join(', ');
    const values = l.y.filter((v) => v !== null);
    if (values.length === 0) return `${name}: no finite values`;
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    return `${name}: last ${number(values[values.length - 1])}, lowest ${number(low)}, highest ${number(high)}`;
  });
  return `${chart.name} over ${x === 'step' ? 'steps' : 'time'}. ${said.join('; ')}`;
}
