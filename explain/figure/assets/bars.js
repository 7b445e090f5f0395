// bars draws values by name: upright in axes of uPlot, or lying as rows, for long names.

import uPlot from './uplot/uPlot.js';
import { h } from './dom.js';
import { floats } from './data.js';
import { plane } from './lines.js';
import { lineColor, number, short } from './scale.js';
import { hideTip, onWidth, showTip } from './tip.js';

// stacks are where each bar begins and ends: [series][name] of [from, to].
function stacks(series, n, stacked) {
  const up = new Float64Array(n), down = new Float64Array(n);
  return series.map((s) => Array.from({ length: n }, (_, i) => {
    const v = Number.isFinite(s.y[i]) ? s.y[i] : 0;
    if (!stacked) return [0, v];
    const from = v >= 0 ? up : down, start = from[i];
    from[i] += v;
    return [start, from[i]];
  }));
}

// bars makes the panel of bars.
export function bars(first) {
  const legend = h('p', { className: 'legend' }), box = h('div', { className: 'plot' });
  const element = h('div', { className: 'bars', role: 'group' }, legend, box);
  let panel = first, series, spans, ends, names, plot = null;

  function read() {
    const b = panel.bars;
    names = b.names ?? [];
    series = (b.series ?? []).map((s, i) => ({ name: short(s.name), y: floats(s.y), color: lineColor(i) }));
    spans = stacks(series, names.length, b.stacked);
    ends = spans.flat(2).reduce(([a, c], v) => [Math.min(a, v), Math.max(c, v)], [0, 0]);
    const axis = b.across ? panel.x : panel.y;
    if ((axis?.min ?? 0) !== (axis?.max ?? 0)) ends = [axis.min ?? 0, axis.max ?? 0];
    if (ends[0] === ends[1]) ends = [0, 1];
    legend.hidden = series.length < 2;
    legend.replaceChildren(...series.map((s) => {
      const mark = h('span', { className: 'mark point' });
      mark.style.color = s.color;
      return h('span', { className: 'line' }, mark, s.name);
    }));
    element.setAttribute('aria-label', `${short(panel.title) || 'Bars'}: ${names.slice(0, 12).map((name, i) =>
      `${short(name)} ${series.map((s) => number(s.y[i])).join(' and ')}`).join('; ')}`);
  }

  const words = (i) => [short(names[i], 120), ...series.map((s) => `${s.name}${s.name ? ': ' : ''}${number(s.y[i])}`)];

  const size = () => ({ width: Math.max(160, box.clientWidth), height: Math.round(Math.min(Math.max(box.clientWidth * 0.45, 220), 320)) });

  function upright() {
    const n = names.length, letters = Math.max(0, ...names.map((name) => short(name, 20).length));
    const rotate = letters * 7 > size().width / Math.max(n, 1);
    const room = ends[1] - ends[0];
    plot = plane(box, {
      size,
      x: {
        label: panel.x?.label, ends: () => [-0.5, Math.max(n, 1) - 0.5], rotate, size: rotate ? Math.min(130, letters * 7 + 14) : 30,
        splits: (u, _, lo, hi) => {
          const every = Math.max(1, Math.ceil((hi - lo) * 14 / Math.max(u.over.clientWidth, 1)));
          return names.map((_, i) => i).filter((i) => i % every === 0 && i >= lo && i <= hi);
        },
        values: (_, at) => at.map((i) => short(names[i], 20)),
      },
      y: { label: panel.y?.label, ends: () => [ends[0] - (ends[0] < 0 ? room * 0.04 : 0), ends[1] + (ends[1] > 0 ? room * 0.04 : 0)] },
      draw(ctx, toX, toY, u) {
        const side = panel.bars.stacked ? 1 : series.length, width = 0.8 / Math.max(side, 1);
        series.forEach((s, k) => {
          ctx.fillStyle = s.color;
          for (let i = 0; i < n; i++) {
            const left = i - 0.4 + (panel.bars.stacked ? 0 : k * width), [a, b] = spans[k][i].map(toY);
            ctx.fillRect(toX(left), Math.min(a, b), Math.max(1, toX(left + width) - toX(left) - 1), Math.abs(b - a));
          }
        });
        ctx.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--muted');
        ctx.fillRect(u.bbox.left, toY(0), u.bbox.width, uPlot.pxRatio);
      },
      hover(left, _, u) {
        const i = Math.round(u.posToVal(left, 'x'));
        return i >= 0 && i < n ? words(i) : null;
      },
    });
  }

  function across() {
    const [lo, hi] = ends, place = (v) => `${(Math.min(Math.max(v, lo), hi) - lo) / (hi - lo) * 100}%`;
    const one = (span, color) => {
      const bar = h('span', { className: 'bar' });
      bar.style.left = place(Math.min(...span));
      bar.style.width = `calc(${place(Math.max(...span))} - ${place(Math.min(...span))})`;
      bar.style.backgroundColor = color;
      return bar;
    };
    const total = (i) => series.map((s) => number(s.y[i])).join(' · ');
    box.replaceChildren(h('div', { className: 'across' }, ...names.flatMap((name, i) => [
      h('span', { className: 'name', title: short(name, 200) }, short(name)),
      h('span', { className: 'track', onmousemove: (e) => showTip(e.clientX, e.clientY, words(i)), onmouseleave: hideTip },
        ...(panel.bars.stacked ? [h('span', { className: 'lane' }, ...series.map((s, k) => one(spans[k][i], s.color)))]
          : series.map((s, k) => h('span', { className: 'lane' }, one(spans[k][i], s.color))))),
      h('span', { className: 'value' }, total(i)),
    ])), panel.x?.label ? h('p', { className: 'muted' }, short(panel.x.label)) : '');
  }

  function build() {
    plot?.destroy();
    plot = null;
    read();
    if (panel.bars.across) across();
    else upright();
  }
  onWidth(box, () => plot?.setSize(size()));
  return {
    element,
    draw: build,
    update(next) {
      panel = next;
      build();
    },
  };
}
