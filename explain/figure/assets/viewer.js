// viewer puts a page together: its words, its list of figures and their sections.

import { h, icon, say } from './dom.js';
import { nextTheme } from './theme.js';
import { section } from './figures.js';
import { short, useColors, visible } from './scale.js';
import { hideTip } from './tip.js';

// grouped are the figures in the order of the page, those of one group together where the first of them stands.
function grouped(figures) {
  const found = [], groups = new Map();
  figures.forEach((entry, index) => {
    const one = { entry, index };
    if (entry.group && groups.has(entry.group)) {
      groups.get(entry.group).push(one);
      return;
    }
    const list = [one];
    if (entry.group) groups.set(entry.group, list);
    found.push(list);
  });
  return found;
}

// show fills an element with a page: head is what html.go says of all figures, load reads one. It returns {update, close}:
// update shows another page and tells whether its figures are the same ones, without which it does nothing; close ends
// what listens to the window. whole says that reading costs nothing but time on this machine.
export function show(element, head, load, whole) {
  const end = new AbortController(), until = { signal: end.signal };
  useColors(head.colors);
  document.title = `${short(head.title, 100)} · hippo`;
  const sections = grouped(head.figures).map((entries) => section(entries, load));
  const nameOf = ({ entries }) => { // a title that all of a group share says more than its name
    const [{ group, title }] = entries.map(({ entry }) => entry);
    return short(entries.every(({ entry }) => entry.title === title) ? title : group, 60);
  };
  const redraw = () => sections.forEach((s) => s.draw());
  const theme = h('button', {
    type: 'button', id: 'theme', className: 'button square', 'aria-label': 'Light or dark', title: 'Light or dark',
    onclick: () => {
      say(`Colors: ${nextTheme()}`);
      redraw();
    },
  }, icon('theme'));
  const links = sections.map((s) => h('a', { href: `#${encodeURIComponent(s.entries[0].entry.name)}` }, nameOf(s)));
  const list = h('nav', { 'aria-label': 'Figures', hidden: sections.length < 3 },
    h('ul', {}, links.map((link) => h('li', {}, link))));
  const subtitle = h('p', { className: 'muted' }, visible(head.subtitle));
  const notes = h('ul', { className: 'notes', 'aria-label': 'Notes' });
  const note = (all) => {
    notes.hidden = !all?.length;
    notes.replaceChildren(...(all ?? []).map((text) => h('li', {}, visible(text))));
  };
  note(head.notes);
  const copy = h('button', {
    type: 'button', className: 'button quiet', onclick: async () => {
      try {
        await navigator.clipboard.writeText(head.command);
        say('Copied');
        copy.textContent = 'Copied';
      } catch { copy.textContent = 'Not allowed'; }
    },
  }, 'Copy');
  element.replaceChildren(
    h('a', { className: 'skip', href: '#figures' }, 'To the figures'),
    h('header', { className: 'top' }, h('div', { className: 'words' }, h('h1', {}, visible(head.title)),
      subtitle), theme),
    h('main', { id: 'figures', tabIndex: -1, 'aria-label': visible(head.title) || 'Figures' },
      notes, list, sections.map((s) => s.element)),
    h('footer', {}, head.command ? h('p', { className: 'command' }, h('code', {}, visible(head.command)), copy) : null,
      h('p', { className: 'muted' }, 'Keys: j and k pick the next of a group, ← and → the next frame, space plays. In a plot, '
        + 'arrows read its values, drag to zoom, double-click to see all.')));

  // Sections are drawn when they come near the window.
  const watch = new IntersectionObserver((found) => {
    for (const one of found) {
      if (!one.isIntersecting) continue;
      watch.unobserve(one.target);
      sections.find((s) => s.element === one.target).start();
    }
  }, { rootMargin: '600px 0px' });
  for (const s of sections) watch.observe(s.element);

  // Paper has all figures. A print does not wait for figures to be read, so those of a file are drawn ahead, one after
  // another, while nothing else is to do.
  addEventListener('beforeprint', () => sections.forEach((s) => s.start()), until);
  const idle = window.requestIdleCallback ?? ((f) => setTimeout(f, 200));
  const ahead = async (i) => {
    if (i === sections.length || end.signal.aborted) return;
    await sections[i].start();
    idle(() => ahead(i + 1));
  };
  if (whole) idle(() => ahead(0));

  // current is the section that keys are for: that with the focus, or the one in the middle of the window.
  const current = () => sections.find((s) => s.element.contains(document.activeElement)) ?? sections.find((s) => {
    const edge = s.element.getBoundingClientRect();
    return edge.bottom > innerHeight * 0.35;
  }) ?? sections.at(-1);
  addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    if (e.key === 'Escape') hideTip();
    const on = e.target;
    if (on instanceof Element && (on.matches('input, select, textarea') || (e.key === ' ' && on.matches('button, a')))) return;
    if (current()?.key(e)) e.preventDefault();
  }, until);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw, until);

  // A link to a figure picks it in its group.
  const follow = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    for (const s of sections) {
      const i = s.has(name);
      if (i < 0) continue;
      s.start();
      s.pick(i, true);
      s.element.scrollIntoView();
    }
  };
  addEventListener('hashchange', follow, until);
  if (location.hash.length > 1) follow();

  const names = (all) => JSON.stringify(all.map((f) => [f.name, f.group]));
  return {
    update(next, another) {
      if (names(next.figures) !== names(head.figures)) return false;
      subtitle.textContent = visible(next.subtitle);
      note(next.notes);
      sections.forEach((s, i) => {
        s.refresh(another, next.figures);
        links[i].textContent = nameOf(s);
      });
      return true;
    },
    close() {
      end.abort();
      watch.disconnect();
    },
  };
}
