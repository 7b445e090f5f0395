// composer is the field for new messages and their attached files.

import { countTokens } from './api.js';
import { app } from './app.js';
import { button, byID, h, icon, replace } from './dom.js';
import { bytes, count } from './format.js';
import { editLast } from './thread.js';

// mostFile is the largest size of a file. Pasted texts of at least longPaste characters are attached as files.
const mostFile = 8 << 20;
const longPaste = 6000;

let files = [];
let shownOf = null; // the conversation of the message
let field, chips, send, live;

export function makeComposer() {
  const input = h('input', {
    type: 'file', multiple: true, hidden: true, 'aria-label': 'Text files to attach',
    onchange: () => attach([...input.files]).finally(() => { input.value = ''; }),
  });
  field = h('textarea', {
    id: 'composer-text', rows: 1, dir: 'auto', 'aria-label': 'Message', onkeydown: key, onpaste: paste, oninput: () => {
      app.draft(field.value);
      grow();
    },
  });
  chips = h('div', { className: 'chips' });
  send = h('button', { type: 'button', id: 'send', className: 'button square strong', onclick: sendOrStop });
  live = h('span', { className: 'live', id: 'live' });
  replace(byID('composer'), h('div', { className: 'box' }, chips, field,
    h('div', { className: 'row' }, button('Attach text files', 'clip', () => input.click(), { id: 'attach' }), input,
      h('span', { className: 'hint' }, 'Enter sends, Shift+Enter is a new line'), live, send)));
  const box = document.documentElement;
  box.addEventListener('dragover', (event) => {
    if (![...event.dataTransfer.types].includes('Files')) return;
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  box.addEventListener('dragleave', (event) => { if (!event.relatedTarget) document.body.classList.remove('dropping'); });
  box.addEventListener('drop', (event) => {
    document.body.classList.remove('dropping');
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  });
}

function grow() {
  field.style.height = 'auto';
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
  showSend();
}

function key(event) {
  if (event.isComposing) return; // Enter confirms a word of an input method
  if (event.key === 'Enter' && !event.shiftKey) {
    event.preventDefault();
    if (!app.turn) sendOrStop();
  } else if (event.key === 'ArrowUp' && field.value === '') {
    event.preventDefault();
    editLast();
  }
}

function paste(event) {
  const { files: pasted } = event.clipboardData;
  const text = event.clipboardData.getData('text/plain');
  if (pasted.length && !text) {
    event.preventDefault();
    attach([...pasted]);
  } else if (text.length > longPaste) {
    event.preventDefault();
    attach([new File([text], 'pasted.txt')]);
  }
}

// attach adds text files. Others are reported as errors.
async function attach(list) {
  for (const file of list) {
    try {
      if (file.size > mostFile) throw new Error(`has ${bytes(file.size)}, the limit is ${bytes(mostFile)}`);
      let text;
      try {
        text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
      } catch {
        throw new Error('is not text in UTF-8');
      }
      if (text.includes('\0')) throw new Error('is not text: it has a zero byte');
      const one = { name: file.name, size: file.size, text };
      files.push(one);
      showChips();
      countTokens(app.current.model, text).then((n) => {
        one.tokens = n;
        showChips();
      }).catch(() => {}); // the size is shown instead
    } catch (error) {
      app.tell('error', `${file.name} ${error.message}.`);
    }
  }
  field.focus();
}

function showChips() {
  replace(chips, files.map((file) => h('span', { className: 'chip' }, icon('clip'), h('span', {}, file.name),
    h('span', { className: 'muted' }, bytes(file.size) + (file.tokens === undefined ? '' : ` · ${count(file.tokens)} tokens`)),
    button(`Remove ${file.name}`, 'close', () => {
      files = files.filter((one) => one !== file);
      showChips();
      field.focus();
    }))));
  showSend();
}

function sendOrStop() {
  if (app.turn) {
    app.stop();
    return;
  }
  if (!field.value.trim() && !files.length) return;
  const taken = files.map(({ name, size, text }) => ({ name, size, text }));
  const text = field.value;
  app.draft();
  field.value = '';
  files = [];
  showChips();
  grow();
  app.send(text, taken);
}

function showSend() {
  const running = Boolean(app.turn);
  const name = running ? 'Stop (Esc)' : 'Send (Enter)';
  if (send.title !== name) replace(send, icon(running ? 'stop' : 'send'));
  send.title = name;
  send.setAttribute('aria-label', name);
  send.disabled = !running && !field.value.trim() && !files.length;
}

// showComposer updates the composer for the current conversation.
export function showComposer() {
  byID('composer').hidden = app.current.kind === 'text';
  if (shownOf !== app.current) {
    shownOf = app.current;
    field.value = app.current.draft ?? '';
    grow();
  }
  field.placeholder = app.model() ? `Message ${app.current.model}` : 'Message';
  showSend();
  if (!app.turn) live.textContent = '';
}

// showSpeed shows the speed of a running reply.
export function showSpeed(turn) {
  const n = turn.speed();
  live.textContent = n ? `${n >= 100 ? Math.round(n) : n.toFixed(1)} tokens/s` : 'reading …';
}
