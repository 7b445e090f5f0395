// live shows a session of the server: it reads texts into it and has the model write, a token at a time, and shows what
// the model holds after each.

import { apiKey, ask, setAPIKey } from './api.js';
import { byID, h } from './dom.js';
import { short } from './scale.js';
import { show } from './viewer.js';

const session = byID('live-session'), view = byID('live-view'), problem = byID('live-problem'), write = byID('live-write');
let shown = null, writing = false, last = null, asked = 0;

const path = (more = '') => `/v1/sessions/${encodeURIComponent(session.value)}${more}`;

// tried does something, and says what was wrong where it fails. A server that wants a key is asked again with one.
async function tried(work) {
  problem.hidden = true;
  try {
    return await work();
  } catch (error) {
    problem.hidden = false;
    problem.textContent = error.message;
    if (error.status === 401 || error.status === 403) {
      byID('live-key-label').hidden = false;
      byID('live-key').focus();
    }
    return undefined;
  }
}

function controls() {
  byID('live-model-label').hidden = session.value !== '';
  write.disabled = session.value === '';
  write.textContent = writing ? 'Stop' : 'Write';
}

// list shows which sessions and models there are.
async function list() {
  const [all, models] = await Promise.all([ask('/v1/sessions'), ask('/v1/models')]);
  const option = (value, text) => h('option', { value }, text), now = session.value;
  session.replaceChildren(option('', 'a new one'),
    ...all.data.map((s) => option(s.id, `${short(s.model, 20)} · ${s.position} tokens · ${s.id.slice(-6)}`)));
  session.value = all.data.some((s) => s.id === now) ? now : '';
  byID('live-model').replaceChildren(...models.data.map((m) => option(m.id, short(m.id, 40))));
  byID('live-key-label').hidden = true;
  controls();
}

// explain asks for the explanation of the session as it is now. Of several answers the last asked for counts.
async function explain() {
  if (session.value === '') return;
  const mine = ++asked;
  const got = await ask(path(`/explain?view=${encodeURIComponent(view.value)}`));
  if (mine !== asked) return;
  last = got.position;
  if (view.options.length === 0) view.replaceChildren(...got.views.map((v) => h('option', { value: v.name }, v.title)));
  const load = (i) => Promise.resolve(got.figures[i]);
  if (shown?.update(got.head, load)) return;
  shown?.close();
  shown = show(byID('page'), got.head, load);
}

byID('live').addEventListener('submit', (e) => {
  e.preventDefault();
  const text = byID('live-text').value;
  tried(async () => {
    if (session.value === '') {
      const made = await ask('/v1/sessions', { model: byID('live-model').value, text });
      await list();
      session.value = made.id;
      controls();
    } else if (text !== '') {
      await ask(path('/append'), { text });
    }
    byID('live-text').value = '';
    await explain();
  });
});

write.addEventListener('click', () => {
  writing = !writing;
  controls();
  if (!writing) return;
  tried(async () => {
    while (writing) {
      const reply = await ask(path('/generate'), { max_tokens: 1 });
      await explain();
      if (reply.finish_reason === 'stop' || reply.ids.length === 0) break;
    }
  }).finally(() => {
    writing = false;
    controls();
  });
});

session.addEventListener('change', () => {
  writing = false;
  controls();
  tried(explain);
});
view.addEventListener('change', () => tried(explain));
byID('live-key').addEventListener('change', () => {
  setAPIKey(byID('live-key').value);
  tried(list);
});

// What another client does with the session is seen soon.
setInterval(async () => {
  if (writing || session.value === '' || last === null || document.hidden) return;
  const now = await ask(path()).catch(() => null);
  if (now && now.position !== last && !writing) tried(explain);
}, 2000);

byID('live-key').value = apiKey();
controls();
tried(list);
