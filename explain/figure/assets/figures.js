// figures shows one figure at a time in a section: of its group the one that is picked, of its frames the one at the
// slider. It is read and drawn when it is first near the window.

import { h, say } from './dom.js';
import { short, visible } from './scale.js';
import { part } from './panels.js';

const reserved = ['figures', 'theme', 'tip']; // names of elements that may not be there yet
const steps = { j: 1, k: -1, ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

// section makes the section of some entries of the page's head: one figure, or those of a group. load reads figure i.
export function section(entries, load) {
  const many = entries.length > 1;
  const name = entries[0].entry.group && many ? short(entries[0].entry.group, 80) : '';
  const title = h('h2', {}, visible(entries[0].entry.title)), count = h('span', { className: 'muted' });
  const picker = h('select', { 'aria-label': `Which of ${name || 'the figures'}`, onchange: () => pick(picker.selectedIndex) },
    entries.map(({ entry }) => h('option', {}, short(entry.pick || entry.title, 80))));
  const step = (words, text, by) => h('button', { type: 'button', className: 'button step', 'aria-label': words, title: words, onclick: () => pick(at + by) }, text);
  const picks = h('div', { className: 'picks', hidden: !many }, h('span', { className: 'group' }, name),
    step('Previous (k)', '‹', -1), picker, step('Next (j)', '›', 1), count);
  const slider = h('input', { type: 'range', min: 0, value: 0, step: 1, 'aria-label': 'Frame', oninput: () => { stop(); frame(Number(slider.value)); } });
  const playing = h('button', { type: 'button', className: 'button play', 'aria-label': 'Play', title: 'Play (space)', onclick: () => (timer ? stop() : play()) }, '▶');
  const label = h('output', {});
  const frames = h('div', { className: 'frames', hidden: true }, playing, slider, label);
  const caption = h('p', { className: 'caption' }), source = h('p', { className: 'source muted' });
  const panels = h('div', { className: 'panels' });
  const error = h('p', { className: 'error', role: 'alert', hidden: true });
  const element = h('section', { className: 'figure', 'aria-label': name || visible(entries[0].entry.title), tabIndex: -1 },
    h('header', {}, title, picks), frames, panels, error, caption, source);
  const own = entries[0].entry.name;
  element.id = reserved.includes(own) || document.getElementById(own) ? `figure-${own}` : own;
  let at = 0, f = 0, figure = null, parts = [], timer = 0, wanted = 0, started = null;

  // pick shows another figure of the group. What was picked last wins, however long reading takes.
  async function pick(i, quiet) {
    i = Math.min(Math.max(i, 0), entries.length - 1);
    const mine = ++wanted;
    stop();
    at = i;
    picker.selectedIndex = i;
    count.textContent = `${i + 1} of ${entries.length}`;
    const { entry, index } = entries[i];
    try {
      const next = await load(index);
      if (mine !== wanted) return;
      show(next);
    } catch (problem) {
      if (mine !== wanted) return;
      error.hidden = false;
      error.textContent = `This figure cannot be read: ${problem.message}`;
      return;
    }
    if (!quiet) {
      history.replaceState(null, '', `#${encodeURIComponent(entry.name)}`);
      if (many) say(`${short(entry.pick || entry.title)}`);
    }
    // The neighbors are read while nothing else is to do.
    const idle = window.requestIdleCallback ?? ((f) => setTimeout(f, 200));
    idle(() => [i + 1, i - 1].filter((j) => entries[j]).forEach((j) => load(entries[j].index).catch(() => {})));
  }

  // like tells whether two figures have the same form, so that the parts of one can show the other.
  const kindsOf = (fig) => fig.frames[0].panels.map((p) => ['lines', 'map', 'bars', 'text', 'diagram', 'table'].find((k) => p[k])).join();

  function show(next) {
    const same = figure !== null && kindsOf(figure) === kindsOf(next) && (figure.columns ?? 0) === (next.columns ?? 0);
    figure = next;
    error.hidden = true;
    title.textContent = visible(next.title);
    caption.textContent = visible(next.caption);
    caption.hidden = !next.caption;
    source.textContent = next.source ? `Source: ${visible(next.source)}` : '';
    source.hidden = !next.source;
    const n = next.frames.length;
    f = Math.min(f, n - 1);
    frames.hidden = n < 2;
    slider.max = n - 1;
    if (same) {
      frame(f);
      return;
    }
    parts = next.frames[f].panels.map(part);
    const narrow = next.columns > 0 ? next.columns : Math.min(parts.length, 3);
    panels.className = `panels columns-${Math.min(narrow, 4)}`;
    panels.replaceChildren(...parts.map((p) => p.element));
    for (const p of parts) p.draw();
    words();
  }

  function words() {
    slider.value = f;
    label.textContent = visible(figure.frames[f].label) || `frame ${f}`;
    slider.setAttribute('aria-valuetext', label.textContent);
  }

  function frame(i) {
    f = Math.min(Math.max(i, 0), figure.frames.length - 1);
    figure.frames[f].panels.forEach((panel, j) => parts[j].update(panel));
    words();
  }

  // play shows frame after frame, from the start where it stands at the end.
  function play() {
    if (!figure || figure.frames.length < 2) return;
    if (f === figure.frames.length - 1) frame(0);
    playing.textContent = '❚❚';
    playing.setAttribute('aria-label', 'Pause');
    const pause = Math.min(500, Math.max(60, 6000 / figure.frames.length));
    timer = setInterval(() => {
      if (f === figure.frames.length - 1) stop();
      else frame(f + 1);
    }, pause);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    playing.textContent = '▶';
    playing.setAttribute('aria-label', 'Play');
  }

  return {
    element,
    entries,
    // start reads and draws what is picked, once. It returns a promise of the picture.
    start() {
      if (!started) started = pick(at, true);
      return started;
    },
    pick,
    has: (wantedName) => entries.findIndex(({ entry }) => entry.name === wantedName),
    // refresh shows what another reader has of the same figures, which may have other names to pick them by.
    refresh(another, figures) {
      load = another;
      entries.forEach((one, i) => {
        one.entry = figures[one.index];
        picker.options[i].textContent = short(one.entry.pick || one.entry.title, 80);
      });
      if (started) pick(at, true);
    },
    draw() { for (const p of parts) p.draw(); },
    // key answers a key of the page: j, k and arrows pick the next figure, or else the next frame; space plays.
    key(e) {
      if (e.key === ' ' && figure?.frames.length > 1) {
        if (timer) stop();
        else play();
        return true;
      }
      if (!steps[e.key]) return false;
      const sideways = e.key === 'ArrowLeft' || e.key === 'ArrowRight';
      if (figure?.frames.length > 1 && (sideways || !many)) {
        if (!sideways && e.key.startsWith('Arrow')) return false; // up and down move the page
        stop();
        frame(f + steps[e.key]);
        return true;
      }
      if (!many || e.key === 'ArrowUp' || e.key === 'ArrowDown') return false;
      pick(at + steps[e.key]);
      return true;
    },
  };
}
