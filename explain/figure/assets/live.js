// live shows a session of the server, by one of several views: it reads texts into it and has the model write, a token at
// a time, and shows what comes of that. A session may be that of a conversation, which goes on elsewhere.

import { apiKey, ask, setAPIKey } from './api.js';
import { asker } from './asking.js';
import { sessionOf } from './conversation.js';
import { byID, h } from './dom.js';
import { short } from './scale.js';
import { onOthers } from './store.js';
import { show } from './viewer.js';

const session = byID('live-session'), view = byID('live-view'), problem = byID('live-problem');
const write = byID('live-write'), tokens = byID('live-tokens'), choices = byID('live-choices');
const query = new URLSearchParams(location.search), chosen = new Map(); // by view: what was chosen
let conversation = query.get('conversation') ?? '';
let views = [], shown = null, shownView = '', writing = false, last = null;

const path = (more = '') => `/v1/sessions/${encodeURIComponent(session.value)}${more}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const option = (value, text) => h('option', { value }, text);

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

// controls shows what can be done with the session: one of a conversation goes on in its own window.
function controls() {
  for (const id of ['live-text-label', 'live-read', 'live-write']) byID(id).hidden = conversation !== '';
  byID('live-model-label').hidden = session.value !== '' || conversation !== '';
  write.disabled = session.value === '';
  write.textContent = writing ? 'Stop' : 'Write';
  const back = byID('live-back');
  back.href = conversation ? `/#conversation=${encodeURIComponent(conversation)}` : '/';
  back.textContent = conversation ? 'Back to the conversation' : 'Chat';
}

// address keeps what is shown in the address of the page, so that it can be loaded again.
function address() {
  const names = { conversation, session: conversation ? '' : session.value, view: view.value };
  const parts = new URLSearchParams(Object.entries(names).filter(([, value]) => value !== ''));
  history.replaceState(null, '', `${location.pathname}${parts.size ? `?${parts}` : ''}${location.hash}`);
}

// list shows which sessions and models there are.
async function list(want = session.value) {
  const [all, models] = await Promise.all([ask('/v1/sessions'), ask('/v1/models')]);
  session.replaceChildren(option('', 'a new one'), ...all.data.map((s) =>
    option(s.id, `${short(s.metadata?.title || s.model, 24)} · ${s.position} tokens · ${s.id.slice(-6)}`)));
  session.value = all.data.some((s) => s.id === want) ? want : '';
  byID('live-model').replaceChildren(...models.data.map((m) => option(m.id, short(m.id, 40))));
  byID('live-key-label').hidden = true;
  controls();
}

// choicesOf are what is chosen of a view: as many tokens, and the values of its options.
const choicesOf = (v) => chosen.get(v.name) ??
  { tokens: v.tokens[0], ...Object.fromEntries((v.options ?? []).map((o) => [o.name, o.values[0]])) };

// where is the path of a view as it is chosen, with some choices made otherwise.
function where(v, other = {}) {
  return path(`/explain?${new URLSearchParams({ view: v.name, ...choicesOf(v), ...other })}`);
}

const current = () => views.find((v) => v.name === view.value);

// offer shows which views there are, and what can be chosen of the one that is shown.
function offer(all) {
  if (views.length === 0) {
    views = all;
    view.replaceChildren(...views.map((v) => option(v.name, v.title)));
    const asked = query.get('view');
    if (views.some((v) => v.name === asked)) view.value = asked;
  }
  const v = current(), now = choicesOf(v);
  tokens.replaceChildren(...[...v.tokens].sort((a, b) => a - b).map((n) => option(n, n)));
  tokens.value = now.tokens;
  choices.replaceChildren(...(v.options ?? []).map((o) => {
    const select = h('select', { onchange: () => choose({ [o.name]: select.value }) },
      o.values.map((value) => option(value, value)));
    select.value = now[o.name];
    return h('label', {}, `${o.title} `, select);
  }));
}

function choose(what) {
  chosen.set(view.value, { ...choicesOf(current()), ...what });
  tried(explain);
}

const asking = asker((got) => {
  last = got.position;
  const load = (i) => Promise.resolve(got.figures[i]);
  if (shownView !== got.view || !shown?.update(got.head, load)) {
    clear(); // names of figures may be those of the new ones
    shown = show(byID('page'), got.head, load);
    shownView = got.view;
  }
  address();
}, (name) => {
  byID('live-state').textContent = name && `The server computes: ${name}`;
  byID('page').setAttribute('aria-busy', String(name !== ''));
});

// explain shows the session by the view that is chosen, which the server computes where it is not there.
async function explain() {
  if (session.value === '') return;
  if (views.length === 0) offer((await ask(path('/explain?tokens=1'))).views); // by the first of them
  const v = current();
  delete byID('page').dataset.ready; // of which what is likely to be wanted next is there
  try {
    await asking.want(where(v), v.title, last);
  } catch (error) {
    if (shownView !== v.name) clear(); // what is there is of another view
    throw error;
  }
}

function clear() {
  shown?.close();
  shown = null;
  shownView = '';
  byID('page').replaceChildren(h('main', { id: 'figures', tabIndex: -1, 'aria-label': 'Figures' }));
}

// idle asks ahead for what is likely to be wanted next: the quick ones among the other values of options.
function idle() {
  const v = current();
  if (!v || writing || last === null || document.hidden) return;
  const paths = (v.options ?? []).flatMap((o) => o.values.slice(0, o.ahead)
    .filter((value) => value !== choicesOf(v)[o.name]).map((value) => where(v, { [o.name]: value })));
  if (paths.length === 0) return;
  asking.ahead(paths, last).then((there) => { if (there) byID('page').dataset.ready = v.name; });
}

// follow shows the conversation as it is now, one time after the other.
let following = null, behind = false;
async function follow() {
  behind = true;
  following ??= (async () => {
    try {
      while (behind) {
        behind = false;
        const made = await sessionOf(conversation);
        if (made.id !== session.value) await list(made.id);
        last = made.position;
        await explain();
      }
    } finally {
      following = null;
    }
  })();
  return following;
}

byID('live').addEventListener('submit', (e) => {
  e.preventDefault();
  const text = byID('live-text').value;
  tried(async () => {
    if (session.value === '') {
      const made = await ask('/v1/sessions', { model: byID('live-model').value, text });
      await list(made.id);
      last = made.position;
    } else if (text !== '') {
      last = (await ask(path('/append'), { text })).position;
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
      last = reply.session.position;
      await Promise.race([tried(explain), pause(200)]); // what takes longer is shown as it comes
      if (reply.finish_reason === 'stop' || reply.ids.length === 0) break;
    }
    await explain();
  }).finally(() => {
    writing = false;
    controls();
  });
});

session.addEventListener('change', () => {
  [writing, conversation, last] = [false, '', null];
  asking.stop();
  controls();
  if (session.value === '') clear();
  address();
  tried(explain);
});
view.addEventListener('change', () => {
  offer(views);
  tried(explain);
});
tokens.addEventListener('change', () => choose({ tokens: Number(tokens.value) }));
byID('live-key').addEventListener('change', () => {
  setAPIKey(byID('live-key').value);
  tried(start);
});

// What another client does with the session, or another window with the conversation, is seen soon.
setInterval(async () => {
  if (writing || session.value === '' || last === null || document.hidden) return;
  const now = await ask(path()).catch(() => null);
  if (writing) return;
  if (now && now.position !== last) {
    last = now.position;
    tried(explain);
  } else if (now) {
    idle();
  }
}, 2000);
onOthers(({ saved, removed }) => {
  if (conversation && saved === conversation) tried(follow);
  if (conversation && removed === conversation) location.assign('/');
});

async function start() {
  await list(query.get('session') ?? '');
  await (conversation ? follow() : explain());
}

byID('live-key').value = apiKey();
clear();
controls();
tried(start);
