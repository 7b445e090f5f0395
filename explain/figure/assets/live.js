// live shows a session of the server, by one of several views: it reads texts into it and has the model write, a token at
// a time, and shows what comes of that. A session may be that of a conversation, which goes on elsewhere.

import { apiKey, ask, setAPIKey } from './api.js';
import { asker } from './asking.js';
import { branchesOf, sessionOf } from './conversation.js';
import { byID, h, say } from './dom.js';
import { short } from './scale.js';
import { onOthers } from './store.js';
import { show } from './viewer.js';

const session = byID('live-session'), view = byID('live-view'), problem = byID('live-problem');
const write = byID('live-write'), tokens = byID('live-tokens'), choices = byID('live-choices');
const query = new URLSearchParams(location.search), chosen = new Map(); // by view: what was chosen
let conversation = query.get('conversation') ?? '';
let views = [], shown = null, shownView = '', writing = false, last = null, sessions = [];
let partners = []; // [value, name]: what can stand beside the session in views of two
let picked = query.get('other') ?? ''; // of them, '' for the nearest
let partner = '', beside = null; // the session that is asked for there, and the one that stands there

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
  for (const id of ['live-text-label', 'live-read', 'live-write', 'live-fork']) byID(id).hidden = conversation !== '';
  byID('live-model-label').hidden = session.value !== '' || conversation !== '';
  write.disabled = byID('live-fork').disabled = session.value === '';
  write.textContent = writing ? 'Stop' : 'Write';
  const back = byID('live-back');
  back.href = conversation ? `/#conversation=${encodeURIComponent(conversation)}` : '/';
  back.textContent = conversation ? 'Back to the conversation' : 'Chat';
}

// address keeps what is shown in the address of the page, so that it can be loaded again.
function address() {
  const names = {
    conversation, session: conversation ? '' : session.value, view: view.value, other: current()?.pair ? picked : '',
  };
  const parts = new URLSearchParams(Object.entries(names).filter(([, value]) => value !== ''));
  history.replaceState(null, '', `${location.pathname}${parts.size ? `?${parts}` : ''}${location.hash}`);
}

// nameOf is what a session is called in lists.
const nameOf = (s) => [short(s.metadata?.title || s.model, 24), `${s.position} tokens`, s.id.slice(-6),
  ...(s.forked_from ? [`fork of ${s.forked_from.id.slice(-6)}`] : [])].join(' · ');

// list shows which sessions and models there are.
async function list(want = session.value) {
  const [all, models] = await Promise.all([ask('/v1/sessions'), ask('/v1/models')]);
  sessions = all.data;
  session.replaceChildren(option('', 'a new one'), ...sessions.map((s) => option(s.id, nameOf(s))));
  session.value = all.data.some((s) => s.id === want) ? want : '';
  byID('live-model').replaceChildren(...models.data.map((m) => option(m.id, short(m.id, 40))));
  byID('live-key-label').hidden = true;
  controls();
}

// choicesOf are what is chosen of a view: as many tokens, and the values of its options.
const choicesOf = (v) => chosen.get(v.name) ??
  { tokens: v.tokens[0], ...Object.fromEntries((v.options ?? []).map((o) => [o.name, o.values[0]])) };

// where is the path of a view as it is chosen, with some choices made otherwise.
function where(v, otherwise = {}) {
  const all = { view: v.name, ...choicesOf(v), ...(v.pair && partner && { other: partner }), ...otherwise };
  return path(`/explain?${new URLSearchParams(all)}`);
}

// pairUp finds what can stand beside the session, and what is to: other sessions of its model, or the other branches of
// the conversation.
async function pairUp(v) {
  const before = JSON.stringify(partners);
  if (conversation) {
    const branches = await branchesOf(conversation);
    partners = branches.map(({ id, text }) => [id, short(text, 40)]);
    if (branches.length === 0) {
      throw new Error('This conversation has no other branch: change a message, or ask for another reply.');
    }
    if (!branches.some(({ id }) => id === picked)) picked = branches[0].id;
    partner = (await sessionOf(conversation, picked)).id;
  } else {
    sessions = (await ask('/v1/sessions')).data;
    const own = sessions.find((s) => s.id === session.value);
    const others = sessions.filter((s) => s !== own && s.model === own?.model);
    partners = [['', 'a fork, or what it is a fork of'], ...others.map((s) => [s.id, nameOf(s)])];
    if (!others.some((s) => s.id === picked)) picked = '';
    partner = picked;
  }
  if (JSON.stringify(partners) === before) return;
  asking.forget(); // the nearest may be another one
  offer(views);
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
  const list = (title, values, value, onchange) => {
    const select = h('select', { onchange: () => onchange(select.value) }, values.map((pair) => option(...pair)));
    select.value = value;
    return h('label', {}, `${title} `, select);
  };
  const focused = [...choices.querySelectorAll('select')].indexOf(document.activeElement);
  choices.replaceChildren(...(v.pair ? [list('Beside', partners, picked, (value) => {
    picked = value;
    tried(explain);
  })] : []), ...(v.options ?? []).map((o) =>
    list(o.title, o.values.map((value) => [value, value]), now[o.name], (value) => choose({ [o.name]: value }))));
  choices.querySelectorAll('select')[focused]?.focus();
}

function choose(what) {
  chosen.set(view.value, { ...choicesOf(current()), ...what });
  tried(explain);
}

const asking = asker((got) => {
  [last, beside] = [got.position, got.other ?? null];
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
    if (v.pair) {
      await pairUp(v);
      if (v !== current()) return; // another view has been chosen meanwhile
    }
    await asking.want(where(v), v.title, last);
  } catch (error) {
    beside = null;
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

byID('live-fork').addEventListener('click', () => tried(async () => {
  const made = await ask(path('/fork'), {});
  await list(made.id);
  turn();
  say(`This is a fork of ${made.forked_from.id.slice(-6)} now`);
  await explain();
}));

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

// turn leaves what was of another session.
function turn() {
  [writing, conversation, last, picked, beside] = [false, '', null, '', null];
  asking.stop();
  controls();
}

session.addEventListener('change', () => {
  turn();
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
  const at = beside, v = current();
  const now = await ask(path()).catch(() => null);
  const other = v?.pair && at ? await ask(`/v1/sessions/${encodeURIComponent(at.id)}`).catch(() => ({})) : at;
  if (writing) return;
  if (other?.position !== at?.position && at === beside) {
    asking.forget();
    tried(explain);
  } else if (now && now.position !== last) {
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
