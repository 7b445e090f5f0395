// el makes an element: its attributes, then its children. Text only ever becomes text.
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key in e && key !== "list") e[key] = value;
    else e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

export const byID = (id) => document.getElementById(id);

// number writes a number in few characters.
export function number(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "—";
  const a = Math.abs(v);
  if (a !== 0 && (a < 0.001 || a >= 1e7)) return v.toExponential(2);
  return a >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(5)));
}

// seconds writes a length of time.
export function seconds(s) {
  if (s < 60) return `${number(Number(s.toFixed(1)))} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}
