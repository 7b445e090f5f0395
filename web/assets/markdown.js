// markdown shows the Markdown text of a model. It creates elements of a few kinds and sets their text, so that nothing
// a model writes is ever parsed as HTML. Markup that it does not know is shown as written.

import { button, h, say } from './dom.js';

// Markdown is an element that shows a growing text. Blocks that have not changed stay in the document.
export class Markdown {
  constructor() {
    this.element = h('div', { className: 'prose', dir: 'auto' });
    this.shown = [];
  }

  update(text) {
    const blocks = blocksOf(text.replace(/\r\n?|[\u2028\u2029]/g, '\n'));
    let same = 0;
    while (same < blocks.length && same < this.shown.length && blocks[same].key === this.shown[same].key) same++;
    while (this.element.childNodes.length > same) this.element.lastChild.remove();
    this.element.append(...blocks.slice(same).map(render));
    this.shown = blocks;
  }
}

// All patterns take time linear in the length of a line: a model may write anything, and the page must not hang.
const fence = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[ \t]{0,4}([\w+#.-]{0,40})/;
const heading = /^(#{1,6})\s+(.*)$/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const row = /^\s*\|.*\|\s*$/;
const rowRule = /^\s*\|(\s*:?-+:?\s*\|)+\s*$/;

// blocksOf divides a text into blocks, each with its lines and a key that is equal only for equal lines.
function blocksOf(text) {
  const lines = text.split('\n');
  const blocks = [];
  const push = (kind, from, to, more = {}) => {
    const own = lines.slice(from, to);
    blocks.push({ kind, lines: own, key: `${kind}\n${own.join('\n')}`, ...more });
  };
  let i = 0;
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
      push('code', from, ++i, { inside, language: opened[2] });
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
      for (i++; i < lines.length && lines[i].trim() !== '' && !begins(lines[i]);) i++;
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
      const inner = new Markdown();
      inner.update(block.lines.map((line) => line.replace(/^> ?/, '')).join('\n').replace(/^>+/gm, ''));
      return h('blockquote', {}, ...inner.element.childNodes);
    }
    case 'list': return list(block.lines);
    case 'table': return table(block.lines);
    default: return h('p', {}, lined(block.lines));
  }
}

// lined joins lines with line breaks, since models mean their line ends.
function lined(lines) {
  return lines.flatMap((line, i) => (i ? [h('br'), ...inline(line)] : inline(line)));
}

function code({ inside, language }) {
  const text = inside.join('\n');
  return h('figure', { className: 'code' },
    h('figcaption', {}, h('span', {}, language || 'text'), button('Copy code', 'copy', () => copyText(text))),
    h('pre', { tabIndex: 0 }, h('code', {}, text)));
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
  for (const line of lines) {
    const found = item.exec(line);
    if (!found) {
      open.at(-1).last.append(h('br'), ...inline(line.trim()));
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

// Markup inside a line.
const marks = /(`{1,4})([^`]+)\1(?!`)|\*\*(?=\S)([^*]+)\*\*|\*(?=[^\s*])([^*]+)\*|\[([^\][]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])/g;

// inline returns the nodes of a line.
function inline(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(marks)) {
    const [all, , codeText, strong, emphasis, label, target, address] = found;
    if (found.index > at) nodes.push(text.slice(at, found.index));
    at = found.index + all.length;
    if (codeText !== undefined) nodes.push(h('code', {}, codeText.trim() || codeText));
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
