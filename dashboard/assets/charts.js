// Charts of the curves of the chosen runs: one for losses, one for each other measurement.
import uPlot from "./uplot/uPlot.js";
import {byID, el, number, seconds} from "./dom.js";
import {styleOf} from "./runs.js";

// What stands first, and how it is called. Everything else that a run has measured follows under its own name.
const names = {
  loss: "training loss", train_loss: "training loss, mean since the last validation", valid_loss: "validation loss",
  valid_accuracy: "validation accuracy, %", valid_mae: "validation mean absolute error", lr: "learning rate",
  grad_norm: "norm of the gradient", tokens_per_s: "tokens per second", examples_per_s: "examples per second",
  mem_bytes: "memory, MiB",
};
const losses = ["loss", "valid_loss"];
const left = ["train_loss", "epoch"]; // told by other curves

const charts = new Map(); // by measurement: {figure, plot, key}
const sync = uPlot.sync("runs");

// smooth is the exponential moving average of values, corrected for its start.
export function smooth(values, weight) {
  let sum = 0, norm = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = weight * sum + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

// shown are values in the unit that they are shown in.
export function shown(measure, values) {
  return measure === "mem_bytes" ? values.map((v) => v === null ? null : v / 2 ** 20) : values;
}

// draw draws runs, [{id, curves}], as options say: {x, smooth, log}.
export function draw(runs, options) {
  const found = new Set(runs.flatMap((r) => Object.keys(r.curves)).filter((n) => !left.includes(n)));
  const parts = losses.some((n) => found.has(n)) ? [["loss", losses.filter((n) => found.has(n))]] : [];
  const rest = [...found].filter((n) => !losses.includes(n));
  const order = Object.keys(names);
  const rank = (n) => (order.indexOf(n) + order.length + 1) % (order.length + 1);
  rest.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  for (const n of rest) parts.push([n, [n]]);
  for (const [key, chart] of charts) {
    if (!parts.some(([k]) => k === key)) {
      chart.plot?.destroy();
      chart.figure.remove();
      charts.delete(key);
    }
  }
  for (const [key, measures] of parts) one(key, measures, runs, options);
}

// one draws a chart, or brings it up to date.
function one(key, measures, runs, options) {
  const lines = [];
  for (const run of runs) {
    for (const m of measures) {
      const c = run.curves[m];
      if (!c || c.value.length === 0) continue;
      const noisy = options.smooth > 0 && (m === "loss" || m === "grad_norm" || m.endsWith("_per_s"));
      const name = measures.length > 1 ? `${run.id}: ${names[m]}` : run.id;
      const x = options.x === "step" ? c.step : c.seconds;
      const line = {run: run.id, name, measure: m, x, y: shown(m, c.value), points: m.startsWith("valid")};
      if (noisy) lines.push({...line, faint: true}, {...line, name: `${name}, smoothed`, y: smooth(line.y, options.smooth)});
      else lines.push(line);
    }
  }
  let chart = charts.get(key);
  if (!chart) {
    chart = {figure: newFigure(key)};
    byID("curves").append(chart.figure);
    charts.set(key, chart);
  }
  const logarithmic = options.log && measures.some((m) => losses.includes(m)) &&
    lines.every((l) => l.y.every((v) => v === null || v > 0));
  const style = getComputedStyle(document.documentElement);
  const kind = JSON.stringify([lines.map((l) => [l.name, styleOf(l.run), l.faint]), logarithmic, options.x,
    style.getPropertyValue("--fg")]);
  const data = align(lines);
  if (chart.key !== kind) {
    chart.plot?.destroy();
    chart.key = kind;
    chart.plot = new uPlot(look(chart.figure, lines, logarithmic, options.x, style), data, chart.figure);
  } else {
    chart.plot.setData(data, !zoomed(chart.plot));
  }
  chart.figure.setAttribute("aria-label", summary(names[key] ?? key, lines, options.x));
}

// zoomed tells whether the user looks at a part of a chart, which new data must leave alone.
function zoomed(plot) {
  const x = plot.data[0], s = plot.scales.x;
  return x.length > 1 && s.min !== null && (s.min > x[0] || s.max < x[x.length - 1]);
}

// align puts lines on one x axis, as uPlot wants them. A line that is drawn by points of its own has gaps elsewhere.
function align(lines) {
  if (lines.length === 0) return [[]];
  return uPlot.join(lines.map((l) => unique(l.x, l.y)));
}

// unique are points with x growing: the last of those with one x.
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

function newFigure(key) {
  const figure = el("figure", {tabIndex: 0, role: "group"},
    el("figcaption", {}, key === "loss" ? "loss" : names[key] ?? key));
  figure.addEventListener("keydown", (e) => move(charts.get(key)?.plot, e));
  new ResizeObserver(() => {
    const chart = charts.get(key);
    chart?.plot?.setSize(size(figure));
  }).observe(figure);
  return figure;
}

// move moves the cursor of a chart by arrow keys; Escape shows all of it again.
function move(plot, e) {
  if (!plot) return;
  const x = plot.data[0], step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20}[e.key];
  if (e.key === "Escape" && x.length > 0) plot.setScale("x", {min: x[0], max: x[x.length - 1]});
  if (!step || x.length === 0) return;
  e.preventDefault();
  const i = Math.min(x.length - 1, Math.max(0, (plot.cursor.idx ?? x.length - 1) + step));
  plot.setCursor({left: plot.valToPos(x[i], "x"), top: plot.over.clientHeight / 2});
}

function size(figure) {
  const wide = figure === figure.parentNode.firstChild;
  return {width: Math.max(120, figure.clientWidth - 26), height: wide ? 340 : 220};
}

// look is how uPlot draws lines.
function look(figure, lines, logarithmic, x, style) {
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = {stroke: color("--muted"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line"), width: 1}};
  return {
    ...size(figure),
    scales: {x: {time: false}, y: {distr: logarithmic ? 3 : 1}},
    cursor: {sync: {key: sync.key}, drag: {x: true, y: false}},
    axes: [
      {...axis, values: (_, ticks) => ticks.map((t) => x === "step" ? number(t) : seconds(t))},
      {...axis, size: 64, values: (_, ticks) => ticks.map((t) => t === null ? "" : number(t))},
    ],
    series: [
      {label: x === "step" ? "step" : "time", value: (_, v) => v === null ? "—" : x === "step" ? number(v) : seconds(v)},
      ...lines.map((l) => {
        const s = styleOf(l.run);
        return {
          label: l.name, stroke: l.faint ? s.color + "55" : s.color, width: l.faint ? 1 : 2, spanGaps: true,
          dash: l.points ? [6, 4] : s.dash, points: {show: l.points, size: 6, fill: s.color},
          value: (_, v) => number(v),
        };
      }),
    ],
  };
}

// summary says in words what a chart shows.
function summary(name, lines, x) {
  const said = lines.filter((l) => !l.faint).map((l) => {
    const values = l.y.filter((v) => v !== null);
    if (values.length === 0) return `${l.name}: no finite values`;
    const last = values[values.length - 1], low = values.reduce((a, b) => Math.min(a, b));
    return `${l.name}: last ${number(last)}, lowest ${number(low)}`;
  });
  return `${name} over ${x === "step" ? "steps" : "time"}. ${said.join("; ")}`;
}
