// map draws a matrix in colors: point at a cell to read it, drag or turn the wheel (while the map has the focus, or with
// Ctrl) to zoom, double-click to see all again, click to show the row.

import { h, say } from './dom.js';
import { floats } from './data.js';
import { colorOf, css, emptyColor, named, number, scaleOf, short, valueAt } from './scale.js';
import { hideTip, onWidth, showTip } from './tip.js';

const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (v, lo, hi) => Math.min(Math.max(v, lo), hi);

// image has a pixel for each cell.
function image(map, values, scale) {
  const canvas = h('canvas', { width: map.cols, height: map.rows });
  const ctx = canvas.getContext('2d'), pixels = ctx.createImageData(map.cols, map.rows);
  const out = new Uint32Array(pixels.data.buffer);
  const pack = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  const colors = Uint32Array.from(scale.colors, pack), empty = pack(emptyColor());
  for (let i = 0; i < out.length; i++) {
    out[i] = Number.isNaN(values[i]) ? empty : colors[Math.round(scale.place(values[i]) * 255)];
  }
  ctx.putImageData(pixels, 0, 0);
  return canvas;
}

// map makes the panel of a matrix. showRow, if the map has row_click, is called with a row that was clicked.
export function map(first, showRow) {
  const canvas = h('canvas', { className: 'map' });
  const element = h('div', {
    className: 'mapbox', tabIndex: 0, role: 'group', onkeydown: (e) => key(e), onpointerdown: (e) => down(e),
    onpointermove: (e) => hover(e), onpointerleave: () => { hideTip(); frame(null); }, ondblclick: () => whole(),
  }, canvas);
  element.addEventListener('wheel', wheel, { passive: false });
  let panel = first, m = first.map, values, scale, cells, view, box, at = null, dragged = null, clicked = -1;

  function read() {
    m = panel.map;
    values = floats(m.values);
    scale = scaleOf(values, m);
    cells = image(m, values, scale);
    element.classList.toggle('clickable', Boolean(m.row_click));
    element.setAttribute('aria-label', `${short(panel.title) || 'Map'}: ${m.rows} rows, ${m.cols} columns, values from ` +
      `${number(m.diverging ? -scale.hi : scale.lo)} to ${number(scale.hi)} ${short(m.unit)}. Arrow keys read the cells` +
      `${m.row_click ? ', Enter shows a row' : ''}.`);
  }

  function whole() {
    view = { c0: 0, c1: m.cols, r0: 0, r1: m.rows };
    paint();
  }

  // names are those at one side: [place, text], as many as there is room for.
  function names(list, n, step, axis, from, to, room, each) {
    const most = element.clientWidth < 480 ? 9 : 18; // letters
    const every = Math.max(1, Math.ceil((to - from) * each / Math.max(room, 1))), out = [];
    if (list?.length) {
      for (let i = Math.ceil(Math.floor(from) / every) * every; i < Math.min(n, to); i += every) {
        if (i + 0.5 >= from && i + 0.5 <= to) out.push([i + 0.5, short(list[i], most)]);
      }
      return out;
    }
    const given = (axis?.min ?? 0) !== (axis?.max ?? 0);
    const each1 = Math.max(step || 1, 1), middle = given ? 0 : 0.5; // numbers of cells stand at their middles
    const lo = given ? axis.min ?? 0 : 0, hi = given ? axis.max : n * each1;
    const value = (i) => lo + i / n * (hi - lo), span = value(to) - value(from);
    const rough = Math.abs(span) / Math.max(1, Math.min(8, room / 44)), power = 10 ** Math.floor(Math.log10(rough));
    const fine = [1, 2, 5, 10].find((k) => k * power >= rough) * power, size = given ? fine : Math.max(1, fine);
    for (let v = Math.ceil(value(from) / size - 1e-9) * size; v <= value(to) + size * 1e-9; v += size) {
      const at = Math.floor((v - lo) / (hi - lo) * n * (given ? 1e9 : 1) + 1e-9) / (given ? 1e9 : 1) + middle;
      if (at >= from && at <= to) out.push([at, number(Number(v.toPrecision(8)))]);
    }
    return out;
  }

  // paint draws what is seen of the map, with its names and the bar of colors.
  function paint() {
    const ratio = devicePixelRatio || 1, width = Math.max(160, element.clientWidth);
    const ctx = canvas.getContext('2d');
    const font = `11.5px ${cssColor('--sans')}`;
    ctx.font = font;
    const wide = (list) => Math.max(0, ...list.map(([, text]) => ctx.measureText(text).width));
    const guess = clamp(width * 0.8 * clamp(m.rows / m.cols, 0.16, 1), Math.min(m.rows * 14, 280), 600);
    const rows = names(m.row_names, m.rows, m.row_step, panel.y, view.r0, view.r1, guess, 13);
    const left = Math.ceil(wide(rows)) + (panel.y?.label ? 26 : 10);
    const ticks = barTicks(guess), right = 28 + Math.ceil(wide(ticks));
    const inside = Math.max(40, width - left - right);
    const high = clamp(inside * clamp(m.rows / m.cols, 0.16, 1), Math.min(m.rows * 14, 280), 600);
    const columns = names(m.col_names, m.cols, m.col_step, panel.x, view.c0, view.c1, inside, m.col_names?.length ? 14 : 50);
    const turned = Boolean(m.col_names?.length);
    const below = (turned ? Math.ceil(wide(columns)) + 8 : 18) + (panel.x?.label ? 18 : 0);
    box = { left, top: 6, width: inside, height: high };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round((high + below + 10) * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${high + below + 10}px`;
    ctx.scale(ratio, ratio);
    ctx.font = font;
    const cw = inside / (view.c1 - view.c0), ch = high / (view.r1 - view.r0);
    ctx.imageSmoothingEnabled = cw * ratio < 1 || ch * ratio < 1;
    ctx.imageSmoothingQuality = 'high';
    ctx.drawImage(cells, view.c0, view.r0, view.c1 - view.c0, view.r1 - view.r0, box.left, box.top, inside, high);
    ctx.strokeStyle = cssColor('--line');
    ctx.strokeRect(box.left + 0.5, box.top + 0.5, inside - 1, high - 1);
    ctx.fillStyle = cssColor('--muted');
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'right';
    for (const [r, text] of rows) ctx.fillText(text, left - 6, box.top + (r - view.r0) * ch);
    ctx.textAlign = turned ? 'right' : 'center';
    for (const [c, text] of columns) {
      ctx.save();
      ctx.translate(left + (c - view.c0) * cw, box.top + high + (turned ? 5 : 11));
      if (turned) ctx.rotate(-Math.PI / 2);
      ctx.fillText(text, 0, 0);
      ctx.restore();
    }
    ctx.textAlign = 'center';
    if (panel.x?.label) ctx.fillText(short(panel.x.label), left + inside / 2, box.top + high + below - 6);
    if (panel.y?.label) {
      ctx.save();
      ctx.translate(9, box.top + high / 2);
      ctx.rotate(-Math.PI / 2);
      ctx.fillText(short(panel.y.label), 0, 0);
      ctx.restore();
    }
    bar(ctx, left + inside + 10, box.top, high, ticks);
    for (const [cell, color] of [[clicked >= 0 ? { r: clicked } : null, '--accent'], [at, '--fg']]) {
      if (!cell) continue;
      const x = cell.c === undefined ? left : left + (cell.c - view.c0) * cw, y = box.top + (cell.r - view.r0) * ch;
      ctx.strokeStyle = cssColor(color);
      ctx.lineWidth = 2;
      ctx.strokeRect(x, y, cell.c === undefined ? inside : Math.max(cw, 2), Math.max(ch, 2));
    }
  }

  // barTicks are the numbers beside the bar of colors: [part of its height, text].
  function barTicks(high) {
    const digits = Math.max(0, 2 - Math.floor(Math.log10(scale.hi - scale.lo)));
    const round = (v) => Number(scale.log || digits > 20 ? v.toPrecision(3) : v.toFixed(digits));
    const n = high < 90 ? 1 : high < 200 ? 2 : 4;
    return Array.from({ length: n + 1 }, (_, i) =>
      [i / n, number(scale.log && scale.diverging && i * 2 === n ? 0 : round(valueAt(scale, i / n)))]);
  }

  // bar draws the colors by value.
  function bar(ctx, x, y, high, ticks) {
    for (let i = 0; i < high; i++) {
      ctx.fillStyle = css(colorOf(scale, valueAt(scale, 1 - (i + 0.5) / high)));
      ctx.fillRect(x, y + i, 10, 1.5);
    }
    ctx.fillStyle = cssColor('--muted');
    ctx.textAlign = 'left';
    for (const [t, text] of ticks) ctx.fillText(text, x + 14, clamp(y + high * (1 - t), y + 6, y + high - 5));
  }

  // cellAt is the cell below the pointer.
  function cellAt(e) {
    const edge = canvas.getBoundingClientRect();
    const x = (e.clientX - edge.left - box.left) / box.width, y = (e.clientY - edge.top - box.top) / box.height;
    if (x < 0 || y < 0 || x >= 1 || y >= 1) return null;
    const c = view.c0 + x * (view.c1 - view.c0), r = view.r0 + y * (view.r1 - view.r0);
    return { r: Math.min(m.rows - 1, Math.floor(r)), c: Math.min(m.cols - 1, Math.floor(c)), x: c, y: r };
  }

  const words = ({ r, c }) => [
    `${number(values[r * m.cols + c])} ${short(m.unit)}`.trim(), named(m.row_names, r, m.row_step, short(panel.y?.label, 30) || 'row'),
    named(m.col_names, c, m.col_step, short(panel.x?.label, 30) || 'column'),
    ...(m.notes ? [short(m.notes[r * m.cols + c], 300)] : []),
  ];

  function frame(cell) {
    if (at?.r === cell?.r && at?.c === cell?.c) return;
    at = cell && { r: cell.r, c: cell.c };
    requestAnimationFrame(paint);
  }

  function hover(e) {
    if (dragged) return;
    const cell = cellAt(e);
    frame(cell);
    if (cell) showTip(e.clientX, e.clientY, words(cell));
    else hideTip();
  }

  // down begins to mark a part to zoom into, which becomes a click where the pointer does not move.
  function down(e) {
    const start = cellAt(e);
    if (!start || e.button !== 0) return;
    dragged = { start, x: e.clientX, y: e.clientY, end: start };
    const moved = (now) => {
      const cell = cellAt(now);
      if (!cell) return;
      dragged.end = cell;
      paint();
      const edge = canvas.getBoundingClientRect(), ctx = canvas.getContext('2d');
      ctx.strokeStyle = cssColor('--accent');
      ctx.lineWidth = 1.5;
      ctx.strokeRect(dragged.x - edge.left, dragged.y - edge.top, now.clientX - dragged.x, now.clientY - dragged.y);
    };
    const up = (now) => {
      removeEventListener('pointermove', moved);
      removeEventListener('pointerup', up);
      removeEventListener('pointercancel', up);
      const { start: a, end: b, x, y } = dragged;
      dragged = null;
      if (Math.hypot(now.clientX - x, now.clientY - y) < 5) click(a);
      else if (now.type === 'pointerup' && now.pointerType !== 'touch') zoom(Math.min(a.c, b.c), Math.max(a.c, b.c) + 1, Math.min(a.r, b.r), Math.max(a.r, b.r) + 1);
      paint();
    };
    addEventListener('pointermove', moved);
    addEventListener('pointerup', up);
    addEventListener('pointercancel', up);
  }

  function click(cell) {
    if (!m.row_click) return;
    clicked = clicked === cell.r ? -1 : cell.r;
    showRow(clicked < 0 ? null : rowPanel(clicked));
    say(clicked < 0 ? '' : `${named(m.row_names, clicked, m.row_step, 'row')} is shown below`);
    paint();
  }

  // rowPanel is a row as values of tokens, or as a line where columns have no names.
  function rowPanel(r) {
    const row = values.slice(r * m.cols, (r + 1) * m.cols);
    const title = `${m.row_click}: ${named(m.row_names, r, m.row_step, 'row')}`;
    if (!m.col_names?.length) {
      return { title, x: panel.x, lines: { series: [{ name: '', x: Float64Array.from(row, (_, i) => i * Math.max(m.col_step || 1, 1)), y: row }] } };
    }
    return { title, text: { tokens: m.col_names, values: row, diverging: m.diverging, unit: m.unit, mark: m.rows === m.cols ? r : -1 } };
  }

  function zoom(c0, c1, r0, r1) {
    const least = (lo, hi, n, want) => {
      const span = clamp(hi - lo, Math.min(want, n), n), from = clamp((lo + hi - span) / 2, 0, n - span);
      return [from, from + span];
    };
    [view.c0, view.c1] = least(c0, c1, m.cols, 2);
    [view.r0, view.r1] = least(r0, r1, m.rows, 2);
    paint();
  }

  function wheel(e) {
    const cell = cellAt(e);
    if (!cell || !(e.ctrlKey || e.metaKey || element.contains(document.activeElement))) return;
    e.preventDefault();
    const k = Math.exp(clamp(e.deltaY, -100, 100) / 250);
    zoom(cell.x - (cell.x - view.c0) * k, cell.x + (view.c1 - cell.x) * k, cell.y - (cell.y - view.r0) * k, cell.y + (view.r1 - cell.y) * k);
  }

  function key(e) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (e.key === 'Escape') whole();
    if (e.key === 'Enter' && at) click(at);
    if (e.key === '+' || e.key === '-') {
      const k = e.key === '+' ? 0.5 : 2, c = at ? at.c + 0.5 : m.cols / 2, r = at ? at.r + 0.5 : m.rows / 2;
      zoom(c - (c - view.c0) * k, c + (view.c1 - c) * k, r - (r - view.r0) * k, r + (view.r1 - r) * k);
    }
    if (!step) return;
    e.preventDefault();
    e.stopPropagation();
    const cell = at ?? { r: Math.floor(view.r0), c: Math.floor(view.c0) - step[1] };
    at = { r: clamp(cell.r + step[0], 0, m.rows - 1), c: clamp(cell.c + step[1], 0, m.cols - 1) };
    paint();
    const edge = canvas.getBoundingClientRect(), said = words(at);
    showTip(edge.left + box.left + (at.c + 0.5 - view.c0) / (view.c1 - view.c0) * box.width,
      edge.top + box.top + (at.r + 0.5 - view.r0) / (view.r1 - view.r0) * box.height, said);
    say(said.join(', '));
  }

  onWidth(element, () => { if (view) paint(); });
  return {
    element,
    draw() {
      read();
      if (view) paint();
      else whole();
    },
    update(next) {
      const same = next.map.rows === m.rows && next.map.cols === m.cols;
      panel = next;
      read();
      if (!same || !view) {
        [clicked, at] = [-1, null];
        whole();
        return;
      }
      paint();
      if (clicked >= 0) showRow(rowPanel(clicked));
    },
  };
}
