// Tables beside the charts: the latest values, and the settings.
import {shown} from "./charts.js";
import {byID, el, number} from "./dom.js";

// values shows the last value of each measurement of each run.
export function values(runs) {
  const measures = [...new Set(runs.flatMap((r) => Object.keys(r.curves)))].sort();
  byID("latest").hidden = runs.length === 0;
  byID("values").replaceChildren(
    el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "run"), el("th", {scope: "col"}, "step"),
      ...measures.map((m) => el("th", {scope: "col"}, m === "mem_bytes" ? "memory, MiB" : m)), el("th", {scope: "col"}, "report"))),
    el("tbody", {}, ...runs.map((r) => el("tr", {}, el("th", {scope: "row"}, r.id), el("td", {}, number(r.step)),
      ...measures.map((m) => {
        const v = r.curves[m]?.value;
        return el("td", {}, v && v.length > 0 ? number(shown(m, [v[v.length - 1]])[0]) : "—");
      }),
      el("td", {}, r.report ? el("a", {href: reportPath(r.id)}, "report") : "")))));
}

export function reportPath(id) {
  return "/report/" + id.split("/").map(encodeURIComponent).join("/") + "/";
}

// settings shows those of the chosen runs.
export async function settings(ids) {
  const section = byID("differences");
  section.hidden = ids.length === 0;
  if (ids.length === 0) return;
  const answer = await fetch("/api/settings?ids=" + ids.map(encodeURIComponent).join(","));
  if (!answer.ok) {
    byID("settings").replaceChildren(el("caption", {}, await answer.text()));
    return;
  }
  const rows = await answer.json();
  const only = byID("differing").checked && ids.length > 1;
  const shown = rows.filter((r) => !only || r.differ);
  byID("settings").replaceChildren(
    el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "setting"), ...ids.map((id) => el("th", {scope: "col"}, id)))),
    el("tbody", {}, ...shown.map((r) => el("tr", {className: r.differ ? "differ" : ""}, el("th", {scope: "row"}, r.key),
      ...r.values.map((v) => el("td", {}, v ?? "—"))))));
}
