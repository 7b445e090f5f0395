// app is the state that the parts of the page share (the models, the current conversation, the running requests) and
// the actions on it. It does not touch elements; the parts of the page listen for its events.

import * as api from './api.js';
import { kept, remember } from './choices.js';
import * as store from './store.js';
import * as tree from './tree.js';
import { Turn } from './turn.js';

// kindOf returns the kind of a new conversation with a model.
function kindOf(model) {
  if (model?.predict) return 'rows';
  return model?.known && !model.template ? 'text' : 'chat';
}

class App extends EventTarget {
  models = [];
  current = null;
  heads = [];
  turns = new Map(); // the running requests, by the id of the conversation
  explains = false; // whether the server has a page that explains how a model reads a text
  #explaining = Promise.resolve(false); // the request that finds this out
  #open = new Map(); // conversations shown so far, by id
  #saving = new Map(); // timers of pending saves, by the id of the conversation

  // tell dispatches an event: "change" (of anything), "grow" (of a node), "heads" (of the list), "error" (a text) and
  // others.
  tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }

  // model returns the model of the conversation, or the first one if the server does not have that model.
  model() { return this.models.find((one) => one.name === this.current?.model) ?? this.models[0]; }

  // know requests the details of the current model.
  async know() {
    const model = this.model();
    if (!model || model.known) return;
    try {
      await api.describe(model);
      this.tell('change');
    } catch (error) {
      if (error.status === 401) throw error;
      this.tell('error', error.message);
    }
  }

  // learn does the same in the background.
  #learn() { return this.know().catch(() => this.tell('key', () => this.#learn())); }

  // use sets the model of the conversation, and remembers it. An empty conversation becomes one of the model's kind; a
  // network for rows has a page of its own.
  async use(name) {
    remember({ model: name });
    const rows = this.models.some((one) => one.name === name && one.predict);
    if (rows && !tree.isBlank(this.current)) this.fresh();
    const c = this.current;
    c.model = name;
    await this.changed();
    await this.#learn();
    if (c === this.current && tree.isBlank(c)) {
      c.kind = kindOf(this.model());
      this.tell('change');
    }
  }

  // settle replaces the model of the conversation by the first one if the server does not have it, and says so.
  settle() {
    const c = this.current;
    if (!this.models.length || this.models.some((one) => one.name === c.model)) return;
    const gone = c.model;
    c.model = this.models[0].name;
    if (gone) this.tell('note', `This server does not have the model ${gone}: ${c.model} is used.`);
  }

  get turn() { return this.turns.get(this.current?.id); }

  // start requests the models of the server.
  async start() {
    this.#explaining = api.explains();
    this.models = await api.models();
    this.explains = await this.#explaining;
    if (tree.isBlank(this.current)) this.current.model ||= kept().model;
    this.settle();
    await this.know();
    if (tree.isBlank(this.current)) this.fresh();
    this.tell('change');
  }

  // field returns the id of the field that the user writes in.
  field() { return { chat: 'composer-text', text: 'text', rows: 'rows' }[this.current.kind]; }

  async list() {
    this.heads = await store.heads();
    this.tell('heads');
  }

  // fresh shows a new conversation, which is saved once it has content.
  fresh(kind) {
    let model = this.model();
    if (kind && model?.predict) model = this.models.find((one) => !one.predict) ?? model;
    const settings = this.current ? structuredClone(this.current.settings) : kept().settings;
    this.current = tree.newConversation(model?.predict ? 'rows' : kind ?? kindOf(model), model?.name ?? '');
    this.current.settings = settings;
    this.#open.set(this.current.id, this.current);
    this.tell('change');
    this.#learn();
  }

  async show(id) {
    let c = this.#open.get(id);
    if (!c) {
      c = await store.load(id);
      if (!c) return this.list();
      for (const node of Object.values(c.nodes)) {
        if (node.state === 'running') node.state = 'lost'; // its window was closed, or will save it again
      }
      this.#open.set(id, c);
    }
    this.current = c;
    this.settle();
    this.tell('change');
    this.#learn();
    return undefined;
  }

  // keep saves a conversation, now or soon.
  async keep(c = this.current, soon = false) {
    if (!Object.keys(c.nodes).length && !c.draft) return;
    if (soon) {
      if (!this.#saving.has(c.id)) this.#saving.set(c.id, setTimeout(() => this.keep(c), 1000));
      return;
    }
    clearTimeout(this.#saving.get(c.id));
    this.#saving.delete(c.id);
    try {
      await store.save(c);
      await this.list();
    } catch (error) {
      this.tell('error', `The browser could not save the conversation: ${error?.message ?? error}`);
    }
  }

  // changed announces a change of the current conversation and saves it.
  changed() {
    tree.touch(this.current);
    this.tell('change');
    return this.keep();
  }

  // reply requests n replies to a node.
  reply(parent, n = 1) {
    const c = this.current;
    const siblings = tree.children(c, parent).filter((node) => node.role === 'assistant').length;
    const given = c.settings.seed;
    const base = Number.isFinite(given) ? given + siblings : crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
    const nodes = Array.from({ length: n }, (_, i) => tree.add(c, parent, 'assistant', '', { seed: base + i }));
    c.compare = n > 1 ? nodes.map((node) => node.id) : null;
    return this.run(c, nodes);
  }

  // run requests the text of nodes, or its continuation.
  async run(c, nodes) {
    if (this.turns.has(c.id)) return;
    const turn = new Turn(c, nodes, (node) => {
      if (!node) return;
      this.tell('grow', node);
      this.keep(c, true);
    });
    this.turns.set(c.id, turn);
    const ended = turn.run();
    this.tell('change'); // now that its nodes are running
    await ended;
    this.turns.delete(c.id);
    this.tell('change');
    this.tell('ended', turn);
    await this.keep(c);
    if (turn.error?.status === 401) this.tell('key', () => this.run(c, nodes));
  }

  stop() { this.turn?.stop(); }

  // send adds a message to the end of the branch and requests a reply.
  send(content, files = []) {
    if (this.turn) return undefined;
    this.current.compare = null;
    const last = tree.path(this.current).at(-1)?.id ?? '';
    return this.reply(tree.add(this.current, last, 'user', content, { files }).id);
  }

  // edit starts another branch with a changed message, and requests a reply to it. If the message is one of several
  // function results, the branch has the others, too.
  edit(node, content, files) {
    if (this.turn) return undefined;
    const c = this.current;
    const others = [];
    for (let next = tree.chosen(c, node.id); node.role === 'tool' && next?.role === 'tool'; next = tree.chosen(c, next.id)) {
      others.push(next);
    }
    const more = node.role === 'tool' ? { call: node.call, name: node.name } : { files };
    let last = tree.add(c, node.parent, node.role, content, more);
    for (const { content: text, call, name } of others) last = tree.add(c, last.id, 'tool', text, { call, name });
    return this.reply(last.id);
  }

  // answer adds the results of the functions that a reply calls, and requests a reply to them.
  answer(node, texts) {
    if (this.turn) return undefined;
    let last = node;
    node.calls.forEach(({ id, function: { name } }, i) => {
      last = tree.add(this.current, last.id, 'tool', texts[i], { call: id, name });
    });
    return this.reply(last.id);
  }

  // resume continues a reply that ended early.
  resume(node) {
    delete node.tokens; // they would be only a part of it
    return this.run(this.current, [node]);
  }

  // branchReply starts another branch with the beginning of a reply, and continues it.
  branchReply(node, content, tokens) {
    if (this.turn) return undefined;
    const other = tree.add(this.current, node.parent, 'assistant', content, { tokens, seed: node.seed });
    return this.run(this.current, [other]);
  }

  // draft saves the unfinished text of the user in the conversation; an undefined text removes it.
  draft(text) {
    this.current.draft = text;
    this.keep(this.current, true);
  }

  pick(id) {
    if (this.current.kind === 'text') delete this.current.draft; // the text of the branch replaces it
    tree.pick(this.current, id);
    return this.changed();
  }

  // fork shows a new conversation with a copy of the branch up to a node.
  fork(node) {
    this.current = tree.copyUpTo(this.current, node.id);
    this.#open.set(this.current.id, this.current);
    return this.changed();
  }

  async rename(id, title) {
    await this.show(id);
    this.current.title = title.trim();
    await this.changed();
  }

  async remove(id) {
    this.turns.get(id)?.stop();
    clearTimeout(this.#saving.get(id));
    this.#saving.delete(id);
    this.#open.delete(id);
    await store.remove(id);
    this.#forget(id).catch(() => {}); // without a connection, the server's sessions remain
    if (this.current.id === id) this.fresh();
    await this.list();
  }

  // forget deletes the sessions in which the server explains a conversation.
  async #forget(id) {
    if (!await this.#explaining) return;
    const all = await api.explained(id);
    await Promise.all(all.map((one) => api.drop(`/v1/sessions/${one.id}`)));
  }

  // fromOthers applies what another window has saved or removed.
  async fromOthers({ saved, removed }) {
    const c = this.#open.get(saved);
    const theirs = c && await store.load(saved);
    if (theirs) {
      tree.merge(c, theirs);
      if (c === this.current) this.tell('change');
    }
    if (removed && !this.turns.has(removed)) {
      this.#open.delete(removed);
      if (this.current?.id === removed) this.fresh();
    }
    await this.list();
  }

  // everything returns all conversations, as they are written to a file.
  async everything() {
    return { hippo: 'conversations', version: 1, conversations: await Promise.all(this.heads.map((one) => store.load(one.id))) };
  }

  // take imports the conversations of a file.
  async take(text) {
    let file;
    try {
      file = JSON.parse(text);
    } catch (error) {
      throw new Error(`This file is not JSON: ${error.message}`);
    }
    if (!Array.isArray(file?.conversations)) throw new Error('This file has no hippo conversations: the list "conversations" is missing.');
    const all = file.conversations.map(tree.check);
    for (const c of all) await store.save(c);
    await this.list();
    return all.length;
  }
}

export const app = new App();
store.onOthers((message) => app.fromOthers(message));
