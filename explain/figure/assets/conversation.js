// conversation has the server read a conversation of the page to talk with models, which is kept in this browser, so
// that it can be explained as any session.

import { ask, drop, explained } from './api.js';
import { load } from './store.js';
import { ancestors, children, messagesOf, path, title } from './tree.js';

// mark tells texts apart, well enough for those of one conversation.
function mark(text) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0;
  return `${text.length}-${(sum >>> 0).toString(36)}`;
}

// textOf is what the model has read and written on a way through the tree, as a session begins with it.
function textOf(c, way) {
  const nodes = way.filter((node) => node.role === 'user' || node.content);
  if (nodes.length === 0) throw new Error('This conversation has no text yet.');
  if (c.kind === 'text') return { text: nodes.map((node) => node.content).join('') };
  const last = nodes.at(-1).role === 'assistant';
  return { messages: messagesOf(c, nodes), ...(last && { continue_final_message: true }) };
}

async function loaded(id) {
  const c = await load(id);
  if (!c) throw new Error('This conversation is not in this browser.');
  return c;
}

// branchesOf are the ends of the other branches of a conversation, the newest first, by what they say where they part.
export async function branchesOf(id) {
  const c = await loaded(id), here = new Set(path(c).map((node) => node.id));
  return Object.values(c.nodes).filter((node) => !here.has(node.id) && children(c, node.id).length === 0)
    .sort((a, b) => b.created - a.created)
    .map((end) => ({ id: end.id, text: ancestors(c, end.id).find((node) => !here.has(node.id)).content }));
}

// sessionOf is the session of a conversation as it is now, or of the branch that ends in a node. Those of what it was
// before, or of another branch, are deleted.
export async function sessionOf(id, end = '') {
  const c = await loaded(id), role = end ? 'branch' : 'conversation';
  const text = { model: c.model, ...textOf(c, end ? ancestors(c, end) : path(c)) }, of = mark(JSON.stringify(text));
  const before = (await explained(id)).filter((one) => (one.metadata.role ?? 'conversation') === role);
  const made = before.find((one) => one.metadata.of === of) ??
    await ask('/v1/sessions', { ...text, metadata: { conversation: id, of, role, title: title(c) } });
  for (const one of before) {
    if (one.id !== made.id) await drop(`/v1/sessions/${one.id}`).catch(() => {}); // it may be gone
  }
  return made;
}
