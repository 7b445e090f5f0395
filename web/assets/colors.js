// colors gives code its colors by highlight.js, which is loaded with the first code. Its output becomes elements with
// texts: it has no way to make markup.

import { h } from './dom.js';

// Code that is longer, or has a longer line, stays without colors: the patterns of some languages take a time that grows
// with the square of a line. The numbers are characters.
const longest = 20000;
const longestLine = 500;

// Elements is an emitter of highlight.js that makes elements.
class Elements {
  root = document.createDocumentFragment();
  at = this.root;

  addText(text) { if (text) this.at.append(text); }

  openNode(scope) {
    const element = h('span', { className: `is-${scope.split('.')[0]}` });
    this.at.append(element);
    this.at = element;
  }

  closeNode() { this.at = this.at.parentNode ?? this.root; }

  startScope(scope) { this.openNode(scope); }

  endScope() { this.closeNode(); }

  __addSublanguage({ root }) { this.at.append(root); }

  finalize() {}

  toHTML() { return ''; }
}

let loading;

function load() {
  loading ??= import('/assets/highlight/highlight.min.js').then(({ default: library }) => {
    library.configure({ __emitter: Elements });
    return library;
  });
  loading.catch(() => { loading = undefined; }); // the next code tries again
  return loading;
}

// color colors the code of an element that names its language and has no colors yet.
export async function color(element) {
  for (const code of element.querySelectorAll('code[data-language]')) {
    const { language } = code.dataset;
    const text = code.textContent;
    delete code.dataset.language;
    if (text.length > longest || text.split('\n').some((line) => line.length > longestLine)) continue;
    try {
      const library = await load();
      if (!library.getLanguage(language) || code.textContent !== text) continue;
      code.replaceChildren(library.highlight(text, { language, ignoreIllegals: true })._emitter.root);
    } catch { /* it stays as it is */ }
  }
}
