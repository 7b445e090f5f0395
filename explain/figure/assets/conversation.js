// conversation has the server read a conversation of the page to talk with models, which is kept in this browser, so
// that it can be explained as any session.

import { ask, drop, explained } from './api.js';
import { load } from './store.js';
import { messagesOf, path, title } from './tree.js';

// mark tells texts apart, well enough for those of one conversation.
function mark(text) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0;
  return `${text.length}-${(sum >>> 0).toString(36)}`;
}

// textOf is what the model has read and written, as a session begins with it.
function textOf(c) {
  const nodes = path(c).filter((node) => node.role === 'user' || node.content);
  if (nodes.length === 0) throw new Error('This conversation has no text yet.');
  if (c.kind === 'text') return { text: nodes.map((node) => node.content).join('') };
  const last = nodes.at(-1).role === 'assistant';
  return { messages: messagesOf(c, nodes), ...(last && { continue_final_message: true }) };
}

// sessionOf is the session of a conversation as it is now. Those of what it was before are deleted.
export async function sessionOf(id) {
  const c = await load(id);
  if (!c) throw new Error('This conversation is not in this browser.');
  const text = { model: c.model, ...textOf(c) }, of = mark(JSON.stringify(text));
  const before = await explained(id);
  const made = before.find((one) => one.metadata.of === of) ??
    await ask('/v1/sessions', { ...text, metadata: { conversation: id, of, title: title(c) } });
  for (const one of before) {
    if (one.id !== made.id) await drop(`/v1/sessions/${one.id}`).catch(() => {}); // it may be gone
  }
  return made;
}
