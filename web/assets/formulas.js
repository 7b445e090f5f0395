// formulas shows LaTeX by KaTeX, which is loaded with the first formula. What KaTeX refuses, or might compute too long,
// stays as it was written.

import { h } from './dom.js';

// longest and deepest bound the time of a formula and the depth of the document. Definitions of macros multiply what a
// formula is, and so they are not followed.
const longest = 4000;
const deepest = 20;
const defines = /\\(?:[egx]?def|(?:re)?newcommand|providecommand|let|futurelet|global|long)(?![a-zA-Z])/;

function depth(tex) {
  let most = 0;
  let at = 0;
  for (const [mark] of tex.matchAll(/\\(?:left|right|begin|end)(?![a-zA-Z])|\\.|[{}]/g)) {
    if (mark === '{' || mark === '\\left' || mark === '\\begin') most = Math.max(most, ++at);
    else if (mark === '}' || mark === '\\right' || mark === '\\end') at--;
  }
  return most;
}

// formula returns an element of a formula, with the text that the model wrote until typeset shows it.
export function formula(tex, display, written) {
  const at = h('span', { className: display ? 'formula display' : 'formula' }, written);
  at.source = `${display} ${tex}`;
  if (tex.length <= longest && !defines.test(tex) && depth(tex) <= deepest) at.tex = { tex, display };
  return at;
}

let loading;

function load() {
  loading ??= new Promise((resolve, reject) => {
    const style = h('link', { rel: 'stylesheet', href: '/assets/katex/katex.min.css', onload: resolve, onerror: reject });
    document.head.append(style);
  }).then(() => import('/assets/katex/katex.min.js')).then(() => self.katex);
  loading.catch(() => { loading = undefined; }); // the next formula tries again
  return loading;
}

// typeset shows the formulas of an element that are not shown yet.
export async function typeset(element) {
  const all = [element, ...element.querySelectorAll('.formula')].filter((at) => at.tex);
  if (!all.length) return;
  let katex;
  try {
    katex = await load();
  } catch {
    return;
  }
  for (const at of all) {
    if (!at.tex || !at.isConnected) continue; // another call was faster, or it is gone
    const { tex, display } = at.tex;
    delete at.tex;
    const out = h('span');
    try {
      katex.render(tex, out, {
        displayMode: display, trust: false, strict: false, maxSize: 20, maxExpand: 300, errorColor: 'currentcolor',
      });
    } catch {
      continue; // no LaTeX, or none that KaTeX knows
    }
    at.replaceChildren(...out.childNodes);
    if (at.scrollWidth > at.clientWidth) at.tabIndex = 0; // so that the arrow keys move it
  }
}
