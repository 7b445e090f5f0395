// format writes numbers readably.

const whole = new Intl.NumberFormat('en');

// count writes a whole number with separators.
export const count = (n) => whole.format(n);

// bytes writes a size in the unit in which it has up to four digits.
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at++;
  }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

// seconds writes a time in milliseconds or seconds.
export function seconds(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

// speed writes a number of tokens per second.
export function speed(tokens, ms) {
  const n = tokens / Math.max(ms, 1) * 1000;
  return `${n >= 100 ? Math.round(n) : n.toFixed(1)} tokens/s`;
}

// percent writes a fraction as a percentage.
export function percent(p) {
  if (p === 0) return '0 %';
  if (p >= 0.9995) return '100 %';
  if (p >= 0.1) return `${(p * 100).toFixed(0)} %`;
  if (p >= 0.0001) return `${(p * 100).toPrecision(2)} %`;
  return '< 0.01 %';
}
