// Sample texts of the chosen runs, with a slider through the training.
import {byID, el} from "./dom.js";

const shown = new Map(); // by run: {article, slider, heading, text, follow}

export function samples(runs) {
  const box = byID("samples");
  const with_ = runs.filter((r) => r.samples.length > 0);
  byID("texts").hidden = with_.length === 0;
  for (const [id, s] of shown) {
    if (!with_.some((r) => r.id === id)) {
      s.article.remove();
      shown.delete(id);
    }
  }
  for (const run of with_) {
    let s = shown.get(run.id);
    if (!s) {
      s = newSample(run.id);
      shown.set(run.id, s);
      box.append(s.article);
    }
    s.samples = run.samples;
    s.slider.max = run.samples.length - 1;
    if (s.follow) s.slider.value = s.slider.max;
    s.show();
  }
}

function newSample(id) {
  const step = el("span", {className: "muted"});
  const slider = el("input", {type: "range", min: 0, value: 0, step: 1, "aria-label": `sample of ${id}`});
  const text = el("pre");
  const s = {slider, follow: true, samples: [],
    article: el("article", {}, el("h3", {}, id, step, slider), text)};
  s.show = () => {
    const one = s.samples[Math.min(slider.value, s.samples.length - 1)];
    step.textContent = `step ${one.step.toLocaleString("en")}`;
    slider.setAttribute("aria-valuetext", step.textContent);
    text.textContent = one.text;
  };
  slider.addEventListener("input", () => {
    s.follow = Number(slider.value) === s.samples.length - 1;
    s.show();
  });
  return s;
}
