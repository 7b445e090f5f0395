// dom creates elements. Texts always become text nodes and are never parsed as HTML, in any of these files.

const svgNames = 'http://www.w3.org/2000/svg';

// h creates an HTML element. Properties that begin with "on" add listeners, properties of the element itself are set,
// and others become attributes. Those that are undefined, null or false are left out.
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// s creates an SVG element.
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(svgNames, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes('-') && !(element instanceof SVGElement)) element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// byID returns an element of the page.
export const byID = (id) => document.getElementById(id);

// icons are SVG paths, drawn as lines in a square of 24 by 24.
const paths = {
  plus: 'M12 5v14M5 12h14',
  menu: 'M4 6h16M4 12h16M4 18h16',
  close: 'M6 6l12 12M18 6L6 18',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  again: 'M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6',
  fork: 'M12 20v-7M12 13C12 8 6 10 6 5M12 13c0-5 6-3 6-8M3.500 7L6 4.500 8.500 7M15.500 7L18 4.500 20.500 7',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  clip: 'M8 12l6-6a3.5 3.5 0 0 1 5 5l-8 8a5 5 0 0 1-7-7l7-7',
  sliders: 'M4 7h9M17 7h3M13 4v6M4 17h3M11 17h9M7 14v6',
  tree: 'M7 8v8M7 8a2.500 2.500 0 1 0-.01 0M7 21a2.500 2.500 0 1 0-.01 0M17 10.500a2.500 2.500 0 1 0-.01 0M7 16c0-5 10-1 10-5.500',
  theme: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  tokens: 'M3 8h6v8H3zM11 8h3v8h-3zM16 8h5v8h-5z',
  down: 'M12 5v14M6 13l6 6 6-6',
  see: 'M2 12c4-8 16-8 20 0-4 8-16 8-20 0zM12 9a3 3 0 1 0 .01 0',
  go: 'M5 12h14M13 6l6 6-6 6',
};

// icon returns a picture, which screen readers skip.
export function icon(name) {
  return s('svg', { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true' }, s('path', { d: paths[name] }));
}

// button returns a button with a picture. With words it shows its name, otherwise the name is its label and tooltip.
export function button(name, picture, onclick, { words = false, className = '', ...rest } = {}) {
  return h('button', {
    type: 'button', className: `button ${words ? '' : 'square'} ${className}`, onclick,
    'aria-label': words ? undefined : name, title: words ? undefined : name, ...rest,
  }, icon(picture), words ? h('span', {}, name) : null);
}

// replace replaces the children of an element.
export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child));
  return element;
}

// say announces a text to users of screen readers.
export function say(text) { byID('said').textContent = text; }
