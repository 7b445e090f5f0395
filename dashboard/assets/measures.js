// measures has the names and units of the measurements, and writes their numbers.

// names are in display order. Other measurements of a run follow under their own names.
const names = {
  loss: 'training loss', train_loss: 'mean training loss', valid_loss: 'validation loss',
  valid_accuracy: 'validation accuracy, %', valid_mae: 'validation mean absolute error', lr: 'learning rate',
  grad_norm: 'norm of the gradient', tokens_per_s: 'tokens per second', examples_per_s: 'examples per second',
  mem_bytes: 'memory, MiB',
};
const order = Object.keys(names);

export const nameOf = (measure) => (Object.hasOwn(names, measure) ? names[measure] : measure);

// sorted returns measures in display order.
export function sorted(measures) {
  const rank = (m) => (order.includes(m) ? order.indexOf(m) : order.length);
  return [...new Set(measures)].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

// inUnit converts values to the unit in which they are shown.
export function inUnit(measure, values) {
  return measure === 'mem_bytes' ? values.map((v) => (v === null ? null : v / 2 ** 20)) : values;
}

// number writes a number briefly.
export function number(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return '—';
  const size = Math.abs(v);
  if (size !== 0 && (size < 0.001 || size >= 1e7)) return Number(v.toPrecision(3)).toExponential();
  return size >= 1000 ? Math.round(v).toLocaleString('en') : String(Number(v.toPrecision(4)));
}

// duration writes a length of time in seconds.
export function duration(s) {
  if (s < 60) return `${number(Number(s.toFixed(1)))} s`;
  const whole = Math.round(s), minutes = Math.floor(whole / 60);
  const two = (large, big, small, unit) => `${large} ${big}` + (small > 0 ? ` ${small} ${unit}` : '');
  return minutes < 60 ? two(minutes, 'min', whole % 60, 's') : two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
}
