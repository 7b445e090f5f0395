// The list of runs, and which of them are chosen. The choice stands in the address, so that it can be kept and sent.
import {byID, el, number} from "./dom.js";

// Okabe and Ito's colors, which color-blind people can tell apart, without yellow. Dashes distinguish more runs.
const colors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const most = colors.length * dashes.length;

export const chosen = []; // ids, in the order of their colors
let runs = [];
let changed = () => {};

export function onChange(f) { changed = f; }
export function all() { return runs; }
export function styleOf(id) {
  const i = Math.max(0, chosen.indexOf(id));
  return {color: colors[i % colors.length], dash: dashes[Math.floor(i / colors.length) % dashes.length]};
}

export function readAddress() {
  chosen.length = 0;
  for (const id of location.hash.slice(1).split("&").filter(Boolean).slice(0, most)) {
    try { chosen.push(decodeURIComponent(id)); } catch { /* an address typed by hand */ }
  }
}

function writeAddress() {
  history.replaceState(null, "", "#" + chosen.map(encodeURIComponent).join("&"));
}

// show takes a new list. Where nothing is chosen, the run that was written to last is.
export function show(list, more) {
  runs = list;
  const known = new Set(runs.map((r) => r.id));
  const before = chosen.length;
  for (let i = chosen.length - 1; i >= 0; i--) if (!known.has(chosen[i])) chosen.splice(i, 1);
  if (chosen.length === 0 && runs.length > 0 && (before > 0 || location.hash === "")) {
    chosen.push(runs[0].id);
  }
  byID("more").textContent = more > 0 ? `and ${more} more, which were written to earlier` : "";
  const live = runs.filter((r) => r.state === "running").length;
  byID("live").textContent = live > 0 ? `${live} running` : "";
  draw();
}

// draw brings the list up to date. Rows stay where they are in the document, so that the focus stays, too.
export function draw() {
  const list = byID("runs"), wanted = byID("filter").value.toLowerCase();
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  let at = null;
  for (const run of runs) {
    if (!run.id.toLowerCase().includes(wanted)) continue;
    const row = rows.get(run.id) ?? newRow(run.id);
    rows.delete(run.id);
    fill(row, run);
    const place = at ? at.nextSibling : list.firstChild;
    if (row !== place) list.insertBefore(row, place);
    at = row;
  }
  for (const row of rows.values()) row.remove();
}

function newRow(id) {
  const box = el("input", {type: "checkbox"});
  box.addEventListener("change", () => {
    const i = chosen.indexOf(id);
    if (box.checked && i < 0 && chosen.length < most) chosen.push(id);
    if (!box.checked && i >= 0) chosen.splice(i, 1);
    writeAddress();
    draw();
    changed();
  });
  const row = el("li", {}, el("label", {}, box, el("span", {className: "swatch"}), el("span", {className: "name"}, id),
    el("span", {className: "about"}), el("progress", {max: 1, hidden: true})));
  row.dataset.id = id;
  return row;
}

function fill(row, run) {
  const on = chosen.includes(run.id), label = row.firstChild;
  const [box, swatch, , about, bar] = label.children;
  box.checked = on;
  box.disabled = !on && chosen.length >= most;
  swatch.style.background = on ? styleOf(run.id).color : "transparent";
  const loss = run.valid_loss ?? run.loss;
  const steps = run.steps ? `${run.step.toLocaleString("en")}/${run.steps.toLocaleString("en")}` :
    run.step.toLocaleString("en");
  about.replaceChildren(el("span", {className: run.state}, run.state), ` · ${steps}` +
    (loss === undefined ? "" : ` · ${run.valid_loss === undefined ? "loss" : "valid"} ${number(loss)}`));
  bar.hidden = run.state !== "running" || !run.steps;
  if (!bar.hidden) {
    bar.value = run.step / run.steps;
    bar.setAttribute("aria-label", `${run.id}: ${steps} steps`);
  }
}
