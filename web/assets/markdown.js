// markdown shows the Markdown text of a model. It creates elements of a few kinds and sets their text, so that nothing
// a model writes is ever parsed as HTML. Markup that it does not know is shown as written. Formulas are between dollar
// signs, $ and $ or $$ and $$, or \( and \), \[ and \].

import { color } from './colors.js';
import { button, h, say } from './dom.js';
import { formula, typeset } from './formulas.js';

// Markdown is an element that shows a growing text. What has not changed stays in the document: blocks, and within the
// last ones each part.
export class Markdown {
  constructor() {
    this.element = h('div', { className: 'prose', dir: 'auto' });
    this.shown = [];
    this.text = '';
  }

  update(given) {
    const text = given.replace(/\r\n?|[\u2028\u2029]/g, '\n');
    // What is added to a text changes its last two blocks at most: a line that began the last may come to belong to
    // the one before.
    const kept = text.startsWith(this.text) ? Math.max(0, this.shown.length - 2) : 0;
    const from = this.shown[kept]?.at ?? 0;
    const blocks = blocksOf(kept ? text.slice(from) : text, kept ? from : 0);
    const { childNodes } = this.element;
    blocks.forEach((block, i) => {
      const was = this.shown[kept + i];
      if (was?.key === block.key) return;
      if (was) morph(childNodes[kept + i], render(block));
      else this.element.append(render(block));
      typeset(childNodes[kept + i]);
      color(childNodes[kept + i]);
    });
    while (childNodes.length > kept + blocks.length) this.element.lastChild.remove();
    this.shown.splice(kept, Infinity, ...blocks);
    this.text = text;
  }
}

// morph makes an element what another is. Parts that are the same stay, with their selection, and text that grows is
// added to.
function morph(old, fresh) {
  if (old.source !== undefined && old.source === fresh.source) return;
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE && fresh.data.startsWith(old.data)) {
    old.appendData(fresh.data.slice(old.length));
    return;
  }
  if (old.source !== fresh.source || old.nodeType !== Node.ELEMENT_NODE || !old.cloneNode().isEqualNode(fresh.cloneNode())) {
    old.replaceWith(fresh);
    return;
  }
  const parts = [...fresh.childNodes];
  parts.forEach((one, i) => {
    if (old.childNodes[i]) morph(old.childNodes[i], one);
    else old.append(one);
  });
  while (old.childNodes.length > parts.length) old.lastChild.remove();
}

// All patterns take time linear in the length of a line: a model may write anything, and the page must not hang.
const fence = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[ \t]{0,4}([\w+#.-]{0,40})/;
const heading = /^(#{1,6})\s+(.*)$/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const row = /^\s*\|.*\|\s*$/;
const rowRule = /^\s*\|(\s*:?-+:?\s*\|)+\s*$/;

// displayed returns the formula on lines of its own that begins at a line, and the line after it; null if there is
// none. A blank line ends no formula. If the text ends first, the formula is still open. unclosed has, for each mark,
// the line before which it is known that no formula is closed: so that each line is read once.
function displayed(lines, from, unclosed) {
  const found = /^\s*(\$\$|\\\[)/.exec(lines[from]);
  if (!found || from < (unclosed[found[1]] ?? 0)) return null;
  const close = found[1] === '$$' ? '$$' : '\\]';
  const tex = [];
  for (let i = from; i < lines.length; i++) {
    const line = i === from ? lines[i].slice(found[0].length) : lines[i];
    const at = line.indexOf(close);
    const rest = at < 0 ? '' : line.slice(at + 2).trim();
    if (/^[.,;]?$/.test(rest) && (line.trim() || i === from)) {
      tex.push(at < 0 ? line : line.slice(0, at) + rest);
      if (at >= 0) return { tex: tex.join('\n'), end: i + 1 };
      continue;
    }
    unclosed[found[1]] = i;
    return null;
  }
  return { tex: null, end: lines.length };
}

// blocksOf divides a text into blocks, each with its lines, its place in the text, and a key that is equal only for
// equal lines.
function blocksOf(text, start = 0) {
  const lines = text.split('\n');
  const blocks = [];
  const unclosed = {};
  const places = [];
  for (let i = 0, at = start; i < lines.length; at += lines[i++].length + 1) places.push(at);
  const push = (kind, from, to, more = {}) => {
    const own = lines.slice(from, to);
    blocks.push({ kind, lines: own, at: places[from], key: `${kind}\n${own.join('\n')}`, ...more });
  };
  let i = 0;
  let maths;
  while (i < lines.length) {
    const from = i;
    const line = lines[i];
    const opened = opens(line);
    if (line.trim() === '') {
      i++;
    } else if (opened) {
      const close = new RegExp(`^ {0,3}${opened[1][0]}{${opened[1].length},}\\s*$`);
      for (i++; i < lines.length && !close.test(lines[i]);) i++;
      const inside = lines.slice(from + 1, i);
      push('code', from, ++i, { inside, language: opened[2], closed: i <= lines.length });
    } else if ((maths = displayed(lines, i, unclosed))) {
      push('formula', from, i = maths.end, maths);
    } else if (heading.test(line)) {
      push('heading', from, ++i);
    } else if (rule.test(line)) {
      push('rule', from, ++i);
    } else if (line.startsWith('>')) {
      while (i < lines.length && lines[i].startsWith('>')) i++;
      push('quote', from, i);
    } else if (item.test(line)) {
      while (i < lines.length && (item.test(lines[i]) || /^\s+\S/.test(lines[i]))) i++;
      push('list', from, i);
    } else if (row.test(line) && rowRule.test(lines[i + 1] ?? '')) {
      while (i < lines.length && row.test(lines[i])) i++;
      push('table', from, i);
    } else {
      for (i++; i < lines.length && lines[i].trim() !== '' && !begins(lines[i]) && !displayed(lines, i, unclosed);) i++;
      push('paragraph', from, i);
    }
  }
  return blocks;
}

// opens returns the match of a line that opens a fenced block, null for another line.
function opens(line) {
  const found = fence.exec(line);
  return found && !line.includes('`', found[0].length) ? found : null;
}

const begins = (line) => opens(line) || heading.test(line) || line.startsWith('>') || item.test(line);

function render(block) {
  switch (block.kind) {
    case 'code': return code(block);
    case 'heading': {
      const [, marks, text] = heading.exec(block.lines[0]);
      return h(`h${Math.min(marks.length + 2, 6)}`, {}, inline(text));
    }
    case 'rule': return h('hr');
    case 'quote': {
      const inner = block.lines.map((line) => line.replace(/^> ?/, '')).join('\n').replace(/^>+/gm, '');
      return h('blockquote', {}, ...blocksOf(inner).map(render));
    }
    case 'formula': return display(block, block.lines.join('\n'));
    case 'list': return list(block.lines);
    case 'table': return table(block.lines);
    default: return h('p', {}, lined(block.lines));
  }
}

// lined joins lines with line breaks, since models mean their line ends.
function lined(lines) {
  return lines.flatMap((line, i) => (i ? [h('br'), ...inline(line)] : inline(line)));
}

// display returns a formula on lines of its own. While it is open it is text.
function display({ tex }, written) {
  return tex === null ? h('p', { className: 'open' }, written) : formula(tex, true, written);
}

// code has its colors once it is complete, so that none changes while it grows.
function code({ inside, language, closed }) {
  const shown = h('code', {}, inside.join('\n'));
  if (closed && language) shown.dataset.language = language;
  return h('figure', { className: 'code' },
    h('figcaption', {}, h('span', {}, language || 'text'),
      button('Copy code', 'copy', (event) => copyText(event.currentTarget.closest('figure').lastChild.textContent))),
    h('pre', { tabIndex: 0, role: 'group', 'aria-label': 'Code' }, shown));
}

// copyText copies a text to the clipboard, if the browser allows it.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied.');
  } catch {
    say('The browser does not allow copying.');
  }
}

// list creates lists of items, nested by their indentation.
function list(lines) {
  const root = { indent: -1, element: h('div') };
  const open = [root];
  const unclosed = {};
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const found = item.exec(line);
    if (!found) {
      const maths = displayed(lines, i, unclosed);
      if (maths) open.at(-1).last.append(display(maths, lines.slice(i, maths.end).join('\n')));
      else open.at(-1).last.append(h('br'), ...inline(line.trim()));
      if (maths) i = maths.end - 1;
      continue;
    }
    const [, space, mark, text] = found;
    const deep = open.length < 12; // deeper items are not nested further
    while (open.length > 1 && space.length < open.at(-1).indent) open.pop();
    if (open.length === 1 || (deep && space.length > open.at(-1).indent + 1)) {
      const ordered = /\d/.test(mark);
      const element = h(ordered ? 'ol' : 'ul', ordered ? { start: parseInt(mark, 10) } : {});
      (open.at(-1).last ?? open.at(-1).element).append(element);
      open.push({ indent: space.length, element });
    }
    open.at(-1).last = h('li', {}, inline(text));
    open.at(-1).element.append(open.at(-1).last);
  }
  return root.element.childNodes.length === 1 ? root.element.firstChild : root.element;
}

function table(lines) {
  const cells = (line) => line.trim().slice(1, -1).split('|').map((cell) => cell.trim());
  const [first, , ...rest] = lines;
  return h('div', { className: 'wide', tabIndex: 0 }, h('table', {},
    h('thead', {}, h('tr', {}, ...cells(first).map((cell) => h('th', {}, inline(cell))))),
    h('tbody', {}, ...rest.map((line) => h('tr', {}, ...cells(line).map((cell) => h('td', {}, inline(cell))))))));
}

// Markup inside a line. Formulas come first: what is in one is no emphasis. After a dollar sign there is no space, and
// before the closing one neither, so that prices are none.
const marks = new RegExp([
  /(?<![\\$])\$\$((?:\\.|[^$\\])+)\$\$/, /(?<![\\\w$])\$(?=[^\s$])((?:\\.|[^$\\])+)(?<!\s)\$(?![\w$])/,
  /\\\(((?:[^\\]|\\[^()])+)\\\)/, /\\\[((?:[^\\]|\\[^[\]])+)\\\]/,
  /(`{1,4})([^`]+)\5(?!`)/, /\*\*(?=\S)([^*]+)\*\*/, /\*(?=[^\s*])([^*]+)\*/,
  /\[([^\][]+)\]\(([^()\s]+)\)/, /(https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])/,
].map((one) => one.source).join('|'), 'g');

// inline returns the nodes of a line.
function inline(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(marks)) {
    const [all, dollars, dollar, round, square, , codeText, strong, emphasis, label, target, address] = found;
    const tex = dollars ?? dollar ?? round ?? square;
    if (found.index > at) nodes.push(text.slice(at, found.index));
    at = found.index + all.length;
    if (tex !== undefined) nodes.push(formula(tex, dollars !== undefined || square !== undefined, all));
    else if (codeText !== undefined) nodes.push(h('code', {}, codeText.trim() || codeText));
    else if (strong !== undefined) nodes.push(h('strong', {}, strong));
    else if (emphasis !== undefined) nodes.push(h('em', {}, emphasis));
    else nodes.push(link(all, label ?? address, target ?? address));
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}

// link returns a link to a web page, without a referrer; other addresses stay text. Its tooltip shows the address.
function link(all, label, target) {
  let url;
  try {
    url = new URL(target);
  } catch { /* not a URL */ }
  if (!['http:', 'https:'].includes(url?.protocol)) return all;
  return h('a', { href: url.href, rel: 'noopener noreferrer nofollow', target: '_blank', title: url.href }, label);
}
