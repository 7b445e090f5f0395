// composer is the field for new messages and their attached files.

import { countTokens } from './api.js';
import { app } from './app.js';
import { button, byID, h, icon, replace, say } from './dom.js';
import { bytes, count, percent } from './format.js';
import { editLast } from './thread.js';
import { mostFile, mostFiles, readAhead, readText } from './uploads.js';

// Pasted texts of at least longPaste characters are attached as files.
const longPaste = 6000;

let files = [];
let reading = null; // aborts the request by which the server reads the files
let part = 0; // of the files that the server has read
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
    h('div', { className: 'row' }, button(`Attach text files: UTF-8, up to ${bytes(mostFile)} each`, 'clip', () => input.click(), { id: 'attach' }), input,
      h('span', { className: 'hint' }, 'Enter sends, Shift+Enter is a new line'), live, send)));
  app.addEventListener('choose', () => input.click());
  app.addEventListener('suggest', ({ detail: text }) => {
    field.value = text;
    app.draft(text);
    grow();
    field.focus();
  });
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

// refuse says why a file is not attached.
const refuse = (name, why) => app.tell('error', `${name} ${why}.`);

// attach adds text files to the message, or gives them to the page of a text or of rows. Others are refused.
async function attach(list) {
  const { kind } = app.current;
  for (const file of list) {
    try {
      if (files.length >= mostFiles) throw new Error(`is one too many: a message has up to ${mostFiles} files`);
      const one = { name: file.name, size: file.size, text: await readText(file) };
      if (kind === 'chat') files.push(one);
      else app.tell('file', one);
    } catch (error) {
      refuse(file.name, error.message);
    }
  }
  if (kind !== 'chat') return;
  changed();
  field.focus();
  await Promise.all(files.filter((one) => one.tokens === undefined).map(measure));
  read();
}

// measure counts the tokens of a file, and refuses one that the server or the model cannot take.
async function measure(file) {
  try {
    file.tokens = await countTokens(app.current.model, file.text);
  } catch (error) {
    if (error.status === 400 || error.status === 413) drop(file, `is refused by the server: ${error.message}`);
    return; // otherwise the size is shown instead
  }
  const { length, name } = app.model();
  const all = files.reduce((sum, one) => sum + (one.tokens ?? 0), 0);
  if (length && all > length) drop(file, `makes ${count(all)} tokens: ${name} reads at most ${count(length)}`);
  showChips();
}

// drop takes a file away, and says why if it is refused.
function drop(file, why) {
  if (!files.includes(file)) return;
  files = files.filter((one) => one !== file);
  if (why) refuse(file.name, why);
  changed();
}

// changed follows a change of the files: what the server reads is no longer wanted.
function changed() {
  reading?.abort();
  reading = null;
  part = 0;
  showChips();
}

// read has the server read the files, and shows how far it is.
async function read() {
  if (!files.length || app.turn || app.current.kind !== 'chat') return;
  reading?.abort();
  const own = new AbortController();
  reading = own;
  try {
    await readAhead(app.current, files, own.signal, (done) => {
      if (reading !== own) return;
      part = done;
      showChips();
    });
    say('The model has read the files.');
  } catch (error) {
    if (reading !== own) return;
    reading = null; // the message reads them
    if (error.status === 413 || error.status === 400) {
      drop(files.at(-1), `is refused by the server: ${error.message}`);
      read();
    }
    showChips();
  }
}

function showChips() {
  const focused = chips.contains(document.activeElement) && document.activeElement.title;
  replace(chips, files.map((file) => h('span', { className: 'chip' }, icon('clip'), h('span', {}, file.name),
    h('span', { className: 'muted' }, bytes(file.size) + (file.tokens === undefined ? '' : ` · ${count(file.tokens)} tokens`)),
    button(`Remove ${file.name}`, 'close', () => {
      drop(file);
      read();
      field.focus();
    }))), files.length && reading ? h('span', { className: 'muted reading' },
    h('progress', { max: 1, value: part, 'aria-label': 'How much of the files the model has read' }),
    part < 1 ? `reading, ${percent(part || 0)}` : 'read') : null);
  if (focused) [...chips.querySelectorAll('button')].find((one) => one.title === focused)?.focus();
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
  changed();
  grow();
  app.send(text, taken);
  field.focus();
  say('The reply is being written.');
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
  byID('composer').hidden = app.current.kind !== 'chat';
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
