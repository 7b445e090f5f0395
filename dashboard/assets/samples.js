// samples shows texts that the chosen runs have written, with a slider through the training.

import { byID, h } from './dom.js';
import { count } from './format.js';
import { shortName } from './runs.js';

const shown = new Map(); // by run: what newSample makes

export function samples(runs) {
  const wrote = runs.filter((r) => r.samples.length > 0);
  byID('texts').hidden = wrote.length === 0;
  for (const [id, s] of shown) {
    if (wrote.some((r) => r.id === id)) continue;
    s.article.remove();
    shown.delete(id);
  }
  for (const run of wrote) {
    if (!shown.has(run.id)) {
      shown.set(run.id, newSample(run.id));
      byID('samples').append(shown.get(run.id).article);
    }
    const s = shown.get(run.id);
    s.samples = run.samples;
    s.slider.max = run.samples.length - 1;
    s.slider.hidden = run.samples.length === 1;
    if (s.follow) s.slider.value = s.slider.max;
    s.show();
  }
}

function newSample(id) {
  const step = h('span', { className: 'muted' }), text = h('pre');
  const slider = h('input', {
    type: 'range', min: 0, value: 0, step: 1, 'aria-label': `Sample of ${shortName(id)}`, oninput: () => {
      s.follow = Number(slider.value) === s.samples.length - 1;
      s.show();
    },
  });
  const s = { slider, follow: true, samples: [], article: h('article', {}, h('h3', {}, shortName(id), step, slider), text) };
  s.show = () => {
    const one = s.samples[Math.min(slider.value, s.samples.length - 1)];
    step.textContent = `step ${count(one.step)}`;
    slider.setAttribute('aria-valuetext', step.textContent);
    if (text.textContent !== one.text) text.textContent = one.text; // what somebody has marked stays so
  };
  return s;
}
