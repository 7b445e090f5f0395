// lines draws curves, bands and clouds of points in axes of uPlot, which also zooms: drag to zoom in, double-click to see
// all again.

import uPlot from './uplot/uPlot.js';
import { h, say } from './dom.js';
import { floats } from './data.js';
import { lineColor, lineDash, number, short } from './scale.js';
import { hideTip, onWidth, showTip } from './tip.js';

const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// plane is axes with whatever is drawn in them: o has x and y ({label, log, ends, splits, values, rotate}), square, draw
// (ctx, toX, toY, plot) and hover (x, y, plot), which gets places in pixels of the plot and returns lines for the tip.
export function plane(box, o) {
  const line = { stroke: cssColor('--line'), width: 1 };
  const axis = (a, more) => ({
    stroke: cssColor('--muted'), grid: line, ticks: { ...line, size: 4 }, font: `12px ${cssColor('--sans')}`,
    labelFont: `12px ${cssColor('--sans')}`, label: a.label ? short(a.label) : undefined, labelSize: 18, labelGap: 2,
    values: a.values ?? ((_, at) => at.map((v) => (v === null ? '' : number(v)))),
    ...(a.whole ? { incrs: whole } : {}), ...(a.log ? { splits: powers, filter: (_, at) => at } : {}), ...(a.splits ? { splits: a.splits } : {}), ...(a.rotate ? { rotate: -90 } : {}), ...more,
  });
  const scale = (a) => ({ time: false, distr: a.log ? 3 : 1, range: () => a.ends() });
  const plot = new uPlot({
    ...o.size(), mode: 2, legend: { show: false }, padding: [10, 14, 0, 0],
    scales: { x: scale(o.x), y: scale(o.y) },
    series: [null, { paths: () => null, points: { show: false } }],
    axes: [axis(o.x, { size: o.x.size ?? 30, space: 64 }), axis(o.y, { size: o.y.size ?? 58, space: 34 })],
    cursor: { drag: { x: true, y: true, uni: 24 }, points: { show: false }, y: false },
    hooks: {
      draw: [(u) => {
        const { left, top, width, height } = u.bbox, ctx = u.ctx;
        ctx.save();
        ctx.beginPath();
        ctx.rect(left, top, width, height);
        ctx.clip();
        ctx.lineJoin = 'round';
        o.draw(ctx, along(u, 'x'), along(u, 'y'), u);
        ctx.restore();
      }],
      setCursor: [(u) => {
        if (!(u.cursor.left >= 0)) {
          hideTip();
          return;
        }
        const said = o.hover(u.cursor.left, u.cursor.top, u), at = u.over.getBoundingClientRect();
        if (said) showTip(at.left + u.cursor.left, at.top + u.cursor.top, said);
        else hideTip();
      }],
    },
  }, [null, [[0, 1], [0, 1]]], box);
  return plot;
}

// whole are the steps of ticks where all values are whole.
const whole = Array.from({ length: 10 }, (_, e) => [1, 2, 5].map((d) => d * 10 ** e)).flat();

// powers are the ticks of a logarithmic axis: powers of ten, with 2 and 5 times them where there are few.
function powers(u, i, lo, hi) {
  const first = Math.floor(Math.log10(lo)), last = Math.ceil(Math.log10(hi)), most = u.axes[i].side % 2 ? 8 : 10;
  const within = (every, digits) => {
    const at = [];
    for (let e = first; e <= last; e++) {
      if (e % every === 0) at.push(...digits.map((d) => Number(`${d}e${e}`)).filter((v) => v >= lo * 0.999999 && v <= hi * 1.000001));
    }
    return at;
  };
  const fine = within(1, [1, 2, 5]);
  if (fine.length > 1 && fine.length <= most) return fine;
  if (fine.length <= 1) return [lo, Math.sqrt(lo * hi), hi].map((v) => Number(v.toPrecision(2)));
  for (let every = 1; ; every++) {
    const at = within(every, [1]);
    if (at.length <= most) return at;
  }
}

// along is the way from values to pixels of the canvas, without asking the plot for each.
function along(u, key) {
  const { min, max, distr } = u.scales[key];
  const from = u.valToPos(min, key, true), to = u.valToPos(max, key, true);
  if (distr !== 3) return (v) => from + (v - min) / (max - min) * (to - from);
  const low = Math.log(min), span = Math.log(max) - low;
  return (v) => from + (Math.log(v) - low) / span * (to - from);
}

// endsOf are the ends of an axis: those that it names, or else those of the values with some room.
function endsOf(axis, lists, extra, room) {
  if ((axis?.min ?? 0) !== (axis?.max ?? 0)) {
    const lo = axis.log ? Math.max(axis.min ?? 0, axis.max * 1e-6) : axis.min ?? 0;
    return [lo, axis.max ?? 0];
  }
  let lo = Infinity, hi = -Infinity;
  const add = (v) => {
    if (!Number.isFinite(v) || Math.abs(v) > 1e100 || (axis?.log && v <= 0)) return;
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  };
  for (const list of lists) for (let i = 0; i < list.length; i++) add(list[i]);
  extra.forEach(add);
  if (hi < lo) return axis?.log ? [1, 10] : [0, 1];
  if (axis?.log) return hi > lo * 1.0001 ? [lo / (hi / lo) ** room, hi * (hi / lo) ** room] : [lo / 2, hi * 2];
  if (hi - lo <= 1e-12 * Math.abs(hi)) return hi === 0 ? [-1, 1] : [lo - Math.abs(lo) / 2, hi + Math.abs(hi) / 2];
  return [lo - (hi - lo) * room, hi + (hi - lo) * room];
}

// lines makes the panel of lines.
export function lines(first) {
  const legend = h('p', { className: 'legend' }), box = h('div', { className: 'plot' });
  const element = h('div', { className: 'lines', tabIndex: 0, role: 'group', onkeydown: (e) => move(e) }, legend, box);
  let panel = first, series = [], ends = {}, plot = null, at = [0, -1];

  function read() {
    series = (panel.lines.series ?? []).map((s, i) => ({
      ...s, x: floats(s.x), y: floats(s.y), low: floats(s.low), high: floats(s.high), color: lineColor(i),
      dash: s.dashed ? [5, 4] : lineDash(i), name: short(s.name),
    }));
    const circle = panel.lines.circle ? [-1.05, 1.05] : [];
    const clouds = series.some((s) => s.points) || panel.square;
    ends.x = endsOf(panel.x, series.map((s) => s.x), [...circle, ...(panel.lines.at ?? [])], clouds ? 0.04 : 0);
    ends.y = endsOf(panel.y, series.flatMap((s) => [s.y, s.low, s.high]), circle, 0.05);
    legend.replaceChildren(...series.filter((s) => s.name).map((s) => {
      const mark = h('span', { className: s.points ? 'mark point' : s.dashed ? 'mark dashed' : 'mark' });
      mark.style.color = s.color;
      return h('span', { className: 'line' }, mark, s.name);
    }));
    legend.hidden = series.every((s) => !s.name);
    element.setAttribute('aria-label', summary());
  }

  // summary says in words what is drawn.
  function summary() {
    const said = series.slice(0, 8).map((s) => {
      const values = [...s.y].filter(Number.isFinite);
      if (values.length === 0) return `${s.name || 'series'}: no values`;
      const [lo, hi] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
      return `${s.name || 'series'}: ${values.length} points from ${number(lo)} to ${number(hi)}`;
    });
    return `${short(panel.title) || 'Lines'}. ${said.join('; ')}. Arrow keys read the points.`;
  }

  const size = () => {
    const width = Math.max(160, box.clientWidth);
    const high = panel.square ? Math.min(width, 480) : Math.min(Math.max(width * 0.5, 220), 340);
    return { width, height: Math.round(high) };
  };

  // sameScale widens one axis so that a unit is as long on both.
  function sameScale(key) {
    if (!panel.square || panel.x?.log || panel.y?.log) return ends[key];
    const wide = plot?.over.clientWidth > 0 ? plot.over.clientWidth / plot.over.clientHeight : 1;
    const [x, y] = [ends.x, ends.y].map(([lo, hi]) => hi - lo);
    const span = key === 'x' ? Math.max(x, y * wide) : Math.max(x, y * wide) / wide;
    const middle = (ends[key][0] + ends[key][1]) / 2;
    return [middle - span / 2, middle + span / 2];
  }

  function draw(ctx, toX, toY, u) {
    const ratio = uPlot.pxRatio;
    ctx.strokeStyle = cssColor('--muted');
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    for (const x of panel.lines.at ?? []) {
      ctx.beginPath();
      ctx.moveTo(toX(x), u.bbox.top);
      ctx.lineTo(toX(x), u.bbox.top + u.bbox.height);
      ctx.stroke();
    }
    if (panel.lines.circle) {
      ctx.beginPath();
      ctx.ellipse(toX(0), toY(0), Math.abs(toX(1) - toX(0)), Math.abs(toY(1) - toY(0)), 0, 0, 2 * Math.PI);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    for (const s of series) band(ctx, s, toX, toY);
    for (const s of series) (s.points ? points : curve)(ctx, s, toX, toY, ratio);
    const marked = series[at[0]];
    if (marked && at[1] >= 0 && at[1] < marked.x.length) {
      ctx.beginPath();
      ctx.arc(toX(marked.x[at[1]]), toY(marked.y[at[1]]), 6 * ratio, 0, 2 * Math.PI);
      ctx.strokeStyle = cssColor('--fg');
      ctx.lineWidth = 2 * ratio;
      ctx.stroke();
    }
  }

  // hover finds the nearest point.
  function hover(left, top, u) {
    let best = null, nearest = 40 ** 2;
    const ratio = uPlot.pxRatio, toX = along(u, 'x'), toY = along(u, 'y');
    const px = left * ratio + u.bbox.left, py = top * ratio + u.bbox.top;
    series.forEach((s, k) => {
      const across = s.points ? 1 : 0.1; // for a line its height matters less
      for (let i = 0; i < s.x.length; i++) {
        const dx = (toX(s.x[i]) - px) / ratio, dy = (toY(s.y[i]) - py) / ratio;
        const d = dx * dx + across * dy * dy;
        if (d < nearest) [nearest, best] = [d, [k, i]];
      }
    });
    return best && words(...best);
  }

  const words = (k, i) => {
    const s = series[k], band = s.low.length ? ` (${number(s.low[i])} to ${number(s.high[i])})` : '';
    const said = [s.name || short(panel.title), short(s.labels?.[i], 120),
      `${short(panel.x?.label) || 'x'}: ${number(s.x[i])}`, `${short(panel.y?.label) || 'y'}: ${number(s.y[i])}${band}`];
    const others = s.points ? [] : series.filter((o, j) => j !== k && !o.points && o.x[i] === s.x[i]).slice(0, 8);
    return [...said, ...others.map((o) => `${o.name}: ${number(o.y[i])}`)];
  };

  // move goes from point to point by arrow keys, and from series to series.
  function move(e) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (e.key === 'Escape') {
      at = [0, -1];
      plot.setData(plot.data, true);
    }
    if (!step || series.length === 0) return;
    e.preventDefault();
    e.stopPropagation();
    const k = (at[0] + step[0] + series.length) % series.length, n = series[k].x.length;
    if (n === 0) return;
    at = [k, Math.min(n - 1, Math.max(0, at[1] + step[1]))];
    plot.redraw(false);
    const said = words(...at), over = plot.over.getBoundingClientRect();
    showTip(over.left + plot.valToPos(series[k].x[at[1]], 'x'), over.top + plot.valToPos(series[k].y[at[1]], 'y'), said);
    say(said.filter(Boolean).join(', '));
  }

  function build() {
    plot?.destroy();
    plot = null;
    read();
    const axis = (key) => ({ ...panel[key], ends: () => sameScale(key),
      whole: series.length > 0 && series.every((s) => s[key].every(Number.isInteger)) });
    plot = plane(box, { x: axis('x'), y: axis('y'), size, draw, hover });
    if (panel.square) queueMicrotask(() => plot.setData(plot.data, true)); // then its size is known
  }
  onWidth(box, () => {
    plot?.setSize(size());
    if (plot && panel.square) plot.setData(plot.data, true);
  });
  return {
    element,
    draw: build,
    update(next) {
      panel = next;
      if (!plot) return;
      read();
      plot.setData(plot.data, true);
    },
  };
}

function curve(ctx, s, toX, toY, ratio) {
  ctx.strokeStyle = ctx.fillStyle = s.color;
  ctx.lineWidth = 1.8 * ratio;
  ctx.setLineDash(s.dash.map((v) => v * ratio));
  ctx.beginPath();
  let before = NaN, alone = [];
  for (let i = 0; i < s.x.length; i++) {
    const x = toX(s.x[i]), y = toY(s.y[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      before = NaN;
      continue;
    }
    if (Number.isNaN(before)) {
      ctx.moveTo(x, y);
      if (!Number.isFinite(toY(s.y[i + 1]))) alone.push([x, y]);
    } else {
      if (s.steps) ctx.lineTo(x, before);
      ctx.lineTo(x, y);
    }
    before = y;
  }
  ctx.stroke();
  ctx.setLineDash([]);
  for (const [x, y] of alone) {
    ctx.beginPath();
    ctx.arc(x, y, 3 * ratio, 0, 2 * Math.PI);
    ctx.fill();
  }
}

function points(ctx, s, toX, toY, ratio) {
  ctx.fillStyle = s.color;
  const size = (s.x.length > 400 ? 1.6 : 3) * ratio;
  for (let i = 0; i < s.x.length; i++) {
    const x = toX(s.x[i]), y = toY(s.y[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
    ctx.beginPath();
    ctx.arc(x, y, size, 0, 2 * Math.PI);
    ctx.fill();
  }
}

// band fills what lies between low and high.
function band(ctx, s, toX, toY) {
  ctx.fillStyle = `${s.color}30`;
  for (let i = 0; i < s.low.length; i++) {
    const start = i;
    while (i < s.low.length && Number.isFinite(s.low[i]) && Number.isFinite(s.high[i])) i++;
    if (i - start < 2) continue;
    ctx.beginPath();
    for (let j = start; j < i; j++) ctx.lineTo(toX(s.x[j]), toY(s.high[j]));
    for (let j = i - 1; j >= start; j--) ctx.lineTo(toX(s.x[j]), toY(s.low[j]));
    ctx.closePath();
    ctx.fill();
  }
}
