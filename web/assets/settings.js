// settings is the panel beside a conversation, for sampling, branches and the models of the server.

import { apiKey, loaded, setAPIKey } from './api.js';
import { app } from './app.js';
import { branches } from './branches.js';
import { remember } from './choices.js';
import { button, byID, h, replace } from './dom.js';
import { bytes } from './format.js';
import { formatOf, toolsOf } from './tools.js';
import { touch } from './tree.js';

const fields = [
  ['temperature', 'Temperature', '0 takes the most probable token; higher is more varied', { min: 0, step: 0.1 }, 1],
  ['top_p', 'Top p', 'only the most probable tokens, up to this total probability', { min: 0, max: 1, step: 0.05 }, 1],
  ['top_k', 'Top k', 'only this many of the most probable tokens; 0 for all', { min: 0, step: 1 }, 0],
  ['min_p', 'Min p', 'only tokens with at least this fraction of the largest probability', { min: 0, max: 1, step: 0.01 }, 0],
  ['repetition_penalty', 'Repetition penalty', 'above 1, tokens already in the text become less probable', { min: 0, step: 0.05 }, 1],
  ['max_tokens', 'Token limit', 'of a reply', { min: 1, step: 1 }, 'default of the model'],
  ['seed', 'Seed', 'the same seed, the same reply', { step: 1 }, 'random'],
];

const tabs = [['settings', 'Settings', sampling], ['branches', 'Branches', branches], ['models', 'Models', models]];
let tab = 'settings';

// toggleSettings opens the panel at a tab, or closes it.
export function toggleSettings(wanted) {
  const panel = byID('panel');
  panel.hidden = !panel.hidden && wanted === tab;
  tab = wanted;
  document.body.classList.toggle('settling', !panel.hidden);
  showSettings(true);
  if (!panel.hidden) byID(`tab-${tab}`).focus();
}

export function closeSettings() {
  byID('panel').hidden = true;
  document.body.classList.remove('settling');
}

let shown = '';

// showSettings draws the panel, unless the user is typing in it.
export function showSettings(anew = false) {
  const panel = byID('panel');
  if (panel.hidden) return;
  const what = `${tab} ${app.current.id} ${app.current.kind} ${app.current.model} ${app.model()?.known}`;
  if (tab !== 'branches' && !anew && what === shown) return;
  shown = what;
  const list = h('div', { role: 'tablist', 'aria-label': 'Panel', onkeydown: arrows },
    ...tabs.map(([name, words]) => h('button', {
      type: 'button', role: 'tab', id: `tab-${name}`, 'aria-selected': String(name === tab), 'aria-controls': 'panel-body',
      tabIndex: name === tab ? 0 : -1,
      onclick: () => { tab = name; showSettings(true); byID(`tab-${name}`).focus(); },
    }, words)));
  const bar = h('div', { className: 'tabs' }, list, button('Close the panel', 'close', closeSettings));
  const body = h('div', { id: 'panel-body', role: 'tabpanel', 'aria-labelledby': `tab-${tab}`, tabIndex: 0 });
  const had = panel.contains(document.activeElement) && document.activeElement.id;
  replace(panel, bar, body);
  tabs.find(([name]) => name === tab)[2](body);
  if (had) byID(had)?.focus();
}

function arrows(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step || event.target.getAttribute('role') !== 'tab') return;
  const at = tabs.findIndex(([name]) => name === tab);
  byID(`tab-${tabs[(at + step + tabs.length) % tabs.length][0]}`).click();
}

// update changes settings of the conversation, saves it, and remembers them for new ones.
function update(change) {
  change(app.current);
  remember({ settings: app.current.settings });
  touch(app.current);
  app.keep(app.current, true);
}

function sampling(body) {
  const c = app.current;
  const defaults = app.model()?.defaults ?? {};
  const number = ([name, label, why, limits, standard]) => {
    const own = defaults[name === 'max_tokens' ? 'num_predict' : name];
    const fallback = name === 'max_tokens' && c.kind === 'text' ? '200' : String(standard);
    return h('div', { className: 'field' }, h('label', { htmlFor: `set-${name}` }, label),
      h('input', {
        type: 'number', id: `set-${name}`, ...limits, value: c.settings[name] ?? '', placeholder: own ?? fallback,
        'aria-describedby': `why-${name}`,
        oninput: (event) => {
          const { value, validity } = event.target;
          event.target.setAttribute('aria-invalid', String(!validity.valid && !validity.stepMismatch));
          update((to) => {
            if (value === '') delete to.settings[name];
            else to.settings[name] = Number(value);
          });
        },
      }), h('small', { id: `why-${name}` }, own === undefined ? why : `${why}; the model's own: ${own}`));
  };
  const system = h('div', { className: 'field long' }, h('label', { htmlFor: 'set-system' }, 'System text'),
    h('textarea', {
      id: 'set-system', rows: 4, value: c.system, dir: 'auto', placeholder: 'Instructions for the model, before everything else',
      oninput: (event) => update((to) => { to.system = event.target.value; }),
    }));
  const stop = h('div', { className: 'field long' }, h('label', { htmlFor: 'set-stop' }, 'Stop texts'),
    h('textarea', {
      id: 'set-stop', rows: 2, value: c.settings.stop ?? '', 'aria-describedby': 'why-stop',
      oninput: (event) => update((to) => { to.settings.stop = event.target.value; }),
    }), h('small', { id: 'why-stop' }, 'one per line; a reply ends before any of them; \\n is a line end'));
  // json is a text field for JSON that shows a message while its text is invalid.
  const json = (name, label, why, check, placeholder) => {
    const says = h('small', { id: `why-${name}` });
    const field = h('textarea', {
      id: `set-${name}`, className: 'json', rows: 4, value: c.settings[name] ?? '', placeholder, 'aria-describedby': `why-${name}`,
      oninput: () => {
        update((to) => { to.settings[name] = field.value; });
        tell();
      },
    });
    const tell = () => {
      let wrong = '';
      try {
        check(field.value);
      } catch (error) {
        wrong = error.message;
      }
      field.setAttribute('aria-invalid', String(wrong !== ''));
      says.textContent = wrong || why;
    };
    tell();
    return h('div', { className: 'field long' }, h('label', { htmlFor: `set-${name}` }, label), field, says);
  };
  const model = app.model();
  const knows = !model?.known || /\btools\b/.test(model.template);
  const tools = json('tools', 'Tools', knows ? 'functions that the model may call, as JSON; you enter their results'
    : 'the chat template of this model does not support tools', toolsOf,
  '[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]');
  const choice = h('div', { className: 'field long' }, h('label', { htmlFor: 'set-tool_choice' }, 'Calls'),
    h('select', {
      id: 'set-tool_choice', onchange: (event) => update((to) => { to.settings.tool_choice = event.target.value; }),
    }, ...[['auto', 'the model decides'], ['required', 'each reply is a call'], ['none', 'no reply is a call']].map(([value, words]) => h('option', {
      value, selected: value === (c.settings.tool_choice ?? 'auto'),
    }, words))));
  const schema = json('schema', 'Reply as JSON', 'a JSON schema for each reply; {} is any object', formatOf,
    '{"type": "object", "properties": {"age": {"type": "integer"}}}');
  const ofChats = c.kind === 'chat' ? [tools, choice, schema] : [];
  const key = h('div', { className: 'field long' }, h('label', { htmlFor: 'set-key' }, 'API key'),
    h('input', {
      type: 'password', id: 'set-key', autocomplete: 'off', value: apiKey(), 'aria-describedby': 'why-key',
      onchange: (event) => { setAPIKey(event.target.value.trim()); app.tell('retry'); },
    }), h('small', { id: 'why-key' }, 'stored until this window is closed'));
  if (c.kind === 'rows') {
    body.append(key);
    return;
  }
  body.append(...[c.kind === 'chat' ? system : null, ...fields.map(number), stop, ...ofChats, key].filter(Boolean));
  body.append(button('Reset to defaults', 'again', () => {
    update((to) => { // keep the text as the user wrote it
      const { tools: functions, tool_choice: when, schema: form } = to.settings;
      to.settings = Object.fromEntries(Object.entries({ tools: functions, tool_choice: when, schema: form }).filter(([, x]) => x));
    });
    showSettings(true);
  }, { words: true }));
}

async function models(body) {
  body.append(h('p', { className: 'muted' }, 'Models of this server, and their memory.'));
  const list = h('ul', { className: 'models' });
  body.append(list);
  let inMemory;
  try {
    inMemory = await loaded();
  } catch (error) {
    list.append(h('li', {}, error.message));
    return;
  }
  for (const model of app.models) {
    const there = inMemory.find((one) => one.name.replace(/:latest$/, '') === model.name);
    const facts = [
      model.parameters && `${model.parameters} parameters`, there ? 'loaded' : 'not loaded',
      there?.size > 0 && bytes(there.size), there?.details?.quantization_level,
      there?.texts_bytes > 0 && `${bytes(there.texts_bytes)} of cached prompts`,
      there?.sequences_running > 0 && `${there.sequences_running} texts in progress`,
      model.known && (model.template ? 'chat template' : 'no chat template'),
      model.length > 0 && `at most ${model.length} tokens`,
      model.state > 0 && `state ${bytes(model.state)}${model.growth ? ` and ${bytes(model.growth)} a token` : ''}`,
    ].filter(Boolean);
    const current = model.name === app.current.model;
    list.append(h('li', { className: current ? 'current' : '' },
      h('strong', {}, model.name), h('span', { className: 'muted' }, facts.join(' · ')),
      current ? null : button('Use this', 'go', () => {
        app.use(model.name);
        showSettings(true);
      }, { words: true })));
  }
}
