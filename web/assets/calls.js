// calls shows the functions that a reply calls, and takes what they answer from the person, who plays them.

import { app } from './app.js';
import { button, h } from './dom.js';
import { children } from './tree.js';

// laidOut is JSON with a line for each part; what is none stays as it is.
function laidOut(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// callsOf shows the calls of a reply, null where there are none.
export function callsOf(node) {
  return node.calls?.length ? h('div', { className: 'calls' }, ...node.calls.map(({ function: f }) => h('section', {
    className: 'call', 'aria-label': `Call of ${f.name}`,
  }, h('p', {}, 'calls ', h('strong', {}, f.name)), h('pre', { tabIndex: 0, 'aria-label': 'Arguments' }, laidOut(f.arguments))))) : null;
}

// waits tells whether a reply has calls that are not answered.
export const waits = (node) => Boolean(node.calls?.length) && node.state !== 'running' && !children(app.current, node.id).length;

// answerForm has a field for what each function answers.
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
