// calls shows the function calls of a reply and asks the user for their results.

import { app } from './app.js';
import { button, h } from './dom.js';
import { children } from './tree.js';

// laidOut indents JSON; text that is not JSON is returned unchanged.
function laidOut(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// callsOf shows the calls of a reply; null if there are none.
export function callsOf(node) {
  return node.calls?.length ? h('div', { className: 'calls' }, ...node.calls.map(({ function: f }) => h('section', {
    className: 'call', 'aria-label': `Call of ${f.name}`,
  }, h('p', {}, 'calls ', h('strong', {}, f.name)), h('pre', { tabIndex: 0, 'aria-label': 'Arguments' }, laidOut(f.arguments))))) : null;
}

// waits reports whether a reply has calls without results.
export const waits = (node) => Boolean(node.calls?.length) && node.state !== 'running' && !children(app.current, node.id).length;

// answerForm has a field for the result of each function.
export function answerForm(node) {
  const fields = node.calls.map((call, i) => h('textarea', { id: `answer-${node.id}-${i}`, rows: 2, dir: 'auto' }));
  const send = () => app.answer(node, fields.map((field) => field.value));
  const key = (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || !fields.includes(event.target)) return;
    event.preventDefault();
    const empty = fields.find((field) => !field.value);
    if (empty) empty.focus();
    else send();
  };
  return h('div', { className: 'answers', role: 'group', 'aria-label': 'Results of the functions', onkeydown: key },
    ...node.calls.flatMap((call, i) => [
      h('label', { htmlFor: fields[i].id }, `Result of ${call.function.name}`), fields[i],
    ]), h('div', { className: 'actions' },
      button(fields.length > 1 ? 'Send the results' : 'Send the result', 'send', send, { words: true, className: 'strong' })));
}
