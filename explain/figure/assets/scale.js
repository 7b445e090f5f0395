// scale turns values into colors and words. palette.go and visible.go have the same rules, for files.

let colors = null;

// useColors sets the colors of the page.
export function useColors(all) { colors = all; }

// isDark tells whether the page is dark now.
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

const dashes = [[], [6, 3], [2, 2], [8, 2, 2, 2]];

// lineColor is the color of line i.
export function lineColor(i) {
  const all = colors.lines[isDark() ? 1 : 0];
  return all[i % all.length];
}

// lineDash tells lines of one color apart.
export const lineDash = (i) => dashes[Math.floor(i / colors.lines[0].length) % dashes.length];

const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// table is 256 colors along stops.
function table(stops) {
  const rgb = stops.map(parse);
  return Array.from({ length: 256 }, (_, i) => {
    const place = i / 255 * (rgb.length - 1), at = Math.min(Math.floor(place), rgb.length - 2);
    return rgb[at].map((v, c) => Math.round(v + (place - at) * (rgb[at + 1][c] - v)));
  });
}

const tables = new Map();

// scaleOf is the way from values to colors: {lo, hi, log, diverging, place, colors}. See newScale in palette.go.
export function scaleOf(values, { min = 0, max = 0, log = false, diverging = false }) {
  const sized = log || diverging;
  let lo = Infinity, hi = -Infinity;
  if (min === 0 && max === 0) {
    for (let i = 0; i < values.length; i++) {
      const v = sized ? Math.abs(values[i]) : values[i];
      if (!(Math.abs(v) < 1e100) || (log && v === 0)) continue;
      if (v < lo) lo = v;
      if (v > hi) hi = v;
    }
    if (hi < lo) lo = hi = 0;
  } else if (sized) {
    lo = Math.min(Math.abs(min), Math.abs(max));
    hi = Math.max(Math.abs(min), Math.abs(max));
  } else {
    lo = min;
    hi = max;
  }
  if (log) {
    hi ||= 1;
    lo = Math.max(lo, hi * 1e-6);
    if (lo === hi) lo = hi / 10;
  } else if (diverging) {
    lo = 0;
    hi ||= 1;
  } else if (lo === hi) {
    [lo, hi] = lo === 0 ? [0, 1] : [Math.min(lo, 0), Math.max(hi, 0)];
  }
  const stops = colors[diverging ? 'diverging' : 'sequential'][isDark() ? 1 : 0];
  const key = stops.join();
  if (!tables.has(key)) tables.set(key, table(stops));
  const scale = { lo, hi, log, diverging, colors: tables.get(key) };
  scale.place = (v) => placeOf(scale, v);
  return scale;
}

// placeOf is where a value lies on a scale, from 0 to 1.
function placeOf({ lo, hi, log, diverging }, v) {
  const size = log || diverging ? Math.abs(v) : v;
  let t = log ? Math.log(size / lo) / Math.log(hi / lo) : (size - lo) / (hi - lo);
  t = Math.min(Math.max(t, 0), 1) || 0; // 0 where the ends are too far apart
  return diverging ? (1 + (v < 0 ? -t : t)) / 2 : t;
}

// valueAt is the value whose color stands at t of a scale.
export function valueAt({ lo, hi, log, diverging }, t) {
  if (log && diverging) return Math.sign(2 * t - 1) * lo * (hi / lo) ** Math.abs(2 * t - 1);
  if (log) return lo * (hi / lo) ** t;
  return diverging ? hi * (2 * t - 1) : lo + t * (hi - lo);
}

// emptyColor is that of what has no value.
export const emptyColor = () => (isDark() ? [60, 58, 66] : [232, 232, 232]);

// colorOf is the color of a value, [red, green, blue].
export function colorOf(scale, v) {
  return Number.isNaN(v) ? emptyColor() : scale.colors[Math.round(scale.place(v) * 255)];
}

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// inkOn is black or white, whichever is read better on a color.
export function inkOn(rgb) {
  const light = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179 ? '#000000' : '#ffffff';
}

// number writes a number in few letters.
export function number(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return '—';
  if (!Number.isFinite(v)) return v > 0 ? '∞' : '−∞';
  const size = Math.abs(v);
  const text = size !== 0 && (size < 0.001 || size >= 1e7) ? Number(v.toPrecision(4)).toExponential()
    : size >= 1000 ? String(Math.round(v * 10) / 10) : String(Number(v.toPrecision(4)));
  return text.replace('-', '−');
}

const hidden = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Noncharacter_Code_Point}]/gu;

// visible is text as it is shown: what has no form or moves other letters is written as an escape.
export function visible(text) {
  return String(text ?? '').replace(hidden, (c) => (c === '\n' ? '¶' : c === '\t' ? '→' : escape(c.codePointAt(0))));
}

function escape(code) {
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}

// short is visible text of at most so many letters.
export function short(text, most = 60) {
  const start = String(text ?? '').slice(0, 2 * most + 2), letters = [...start];
  return visible(letters.length > most ? `${letters.slice(0, most).join('')}…` : start);
}

// named is the name of row or column i, or its number.
export function named(names, i, step, word) {
  const first = i * Math.max(step || 1, 1), last = first + Math.max(step || 1, 1) - 1;
  if (names?.length) return short(names[i], 80) || '(empty)';
  return last > first ? `${word} ${first} to ${last}` : `${word} ${first}`;
}
