// tree holds conversations. The messages of a conversation are nodes that refer to their parents. Branches share the
// nodes of their common beginning; an edited message or another reply starts a branch. Nodes are never removed, so that
// two versions of a conversation, from two windows, can be merged by taking the nodes of both.

const newID = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)),
  (x) => x.toString(16).padStart(2, '0')).join('');

// newConversation returns an empty conversation: messages ("chat"), a text that the model continues ("text"), or the
// page of a network for rows of data ("rows"), which is never saved.
export function newConversation(kind, model) {
  const now = Date.now();
  return {
    id: newID(), kind, model, title: '', system: '', settings: {}, showTokens: false, created: now, changed: now,
    nodes: {}, choice: {}, compare: null,
  };
}

// add adds a node below a parent ('' for the root) and chooses it.
export function add(c, parent, role, content, more = {}) {
  const node = {
    id: newID(), parent, role, content, created: Math.max(Date.now(), lastCreated(c) + 1), revision: 1, ...more,
  };
  c.nodes[node.id] = node;
  c.choice[parent] = node.id;
  touch(c);
  return node;
}

const lastCreated = (c) => Object.values(c.nodes).reduce((most, node) => Math.max(most, node.created), 0);

// touch marks a conversation as changed, apart from its nodes.
export function touch(c) { c.changed = Math.max(Date.now(), c.changed + 1); }

// children returns the children of a node, the oldest first.
export function children(c, parent) {
  return Object.values(c.nodes).filter((node) => node.parent === parent)
    .sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

// chosen returns the child of a node that is on the chosen branch.
export function chosen(c, parent) {
  const picked = c.nodes[c.choice[parent]];
  if (picked && picked.parent === parent) return picked;
  return children(c, parent).at(-1);
}

// path returns the nodes of the chosen branch from the beginning.
export function path(c) {
  const nodes = [];
  for (let node = chosen(c, ''); node; node = chosen(c, node.id)) nodes.push(node);
  return nodes;
}

// ancestors returns the nodes from the beginning to the given one ('' for none).
export function ancestors(c, id) {
  const nodes = [];
  for (let node = c.nodes[id]; node; node = c.nodes[node.parent]) nodes.unshift(node);
  return nodes;
}

// pick makes the branch through a node the chosen one.
export function pick(c, id) {
  for (const node of ancestors(c, id)) c.choice[node.parent] = node.id;
  c.compare = null;
  touch(c);
}

// title returns the name of a conversation.
export function title(c) {
  if (c.title) return c.title;
  const first = children(c, '').find((node) => node.content.trim() || node.files?.length);
  const text = (first?.content ?? c.draft ?? '').trim().replace(/\s+/g, ' ') || first?.files?.[0].name;
  if (!text) return c.kind === 'text' ? 'New text' : 'New conversation';
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

// copyUpTo returns a new conversation with the branch up to a node.
export function copyUpTo(c, id) {
  const copy = newConversation(c.kind, c.model);
  Object.assign(copy, {
    title: `${title(c)} (fork)`, system: c.system, settings: structuredClone(c.settings), showTokens: c.showTokens,
  });
  let parent = '';
  for (const node of ancestors(c, id)) {
    const { role, content, created, parent: _, id: __, revision: ___, ...more } = structuredClone(node);
    parent = add(copy, parent, role, content, more).id;
  }
  return copy;
}

// merge adds another version of a conversation to this one. Of each node, and of the rest, the newer version wins.
export function merge(c, other) {
  for (const node of Object.values(other.nodes)) {
    const mine = c.nodes[node.id];
    if (!mine || mine.revision < node.revision) c.nodes[node.id] = node;
  }
  c.choice = { ...other.choice, ...c.choice };
  if (other.changed > c.changed) {
    for (const field of ['title', 'system', 'settings', 'model', 'changed', 'compare']) c[field] = other[field];
  }
  return c;
}

// contentOf returns the content of a message for the model: attached files, as blocks, and its text. Files come first,
// so that the server can read them while the text is being written.
export function contentOf(node) {
  const parts = [];
  for (const file of node.files ?? []) {
    const fence = '`'.repeat(Math.max(3, ...(file.text.match(/`+/g) ?? []).map((run) => run.length + 1)));
    parts.push(`${file.name}:\n${fence}\n${file.text}${file.text.endsWith('\n') ? '' : '\n'}${fence}`);
  }
  return [...parts, node.content].filter((part) => part !== '').join('\n\n');
}

// messageOf returns a node as a message of a request.
function messageOf(node) {
  if (node.role === 'tool') return { role: 'tool', tool_call_id: node.call, name: node.name, content: node.content };
  return { role: node.role, content: contentOf(node), ...(node.calls?.length && { tool_calls: node.calls }) };
}

// messagesOf returns nodes, from the beginning, as messages of a request.
export function messagesOf(c, nodes) {
  const all = nodes.map(messageOf);
  if (c.system.trim()) all.unshift({ role: 'system', content: c.system });
  return all;
}

// settingsIn returns the valid settings in a value from a file or a storage.
export function settingsIn(x) {
  return Object.fromEntries(Object.entries(x ?? {}).filter(([, value]) => isText(value) || Number.isFinite(value)));
}

// isBlank reports whether a conversation has no content.
export const isBlank = (c) => !Object.keys(c.nodes).length && !c.draft;

const roles = ['user', 'assistant', 'tool'];
const isText = (x) => typeof x === 'string';

// callsIn returns the valid function calls in a list from an imported file.
function callsIn(list) {
  return (Array.isArray(list) ? list : []).filter((one) => [one?.id, one?.function?.name, one?.function?.arguments].every(isText))
    .map(({ id, function: { name, arguments: given } }) => ({ id, type: 'function', function: { name, arguments: given } }));
}

// check returns a conversation from an imported file, which may hold anything, with only the known and valid fields.
export function check(x) {
  const fail = (what) => { throw new Error(`This file has no hippo conversation: ${what}.`); };
  if (typeof x !== 'object' || x === null) fail('an entry is not an object');
  const c = newConversation(x.kind === 'text' ? 'text' : 'chat', isText(x.model) ? x.model : '');
  for (const field of ['title', 'system']) if (isText(x[field])) c[field] = x[field];
  if (Number.isFinite(x.created)) c.created = x.created;
  c.settings = settingsIn(x.settings);
  const ids = new Map();
  for (const id of Object.keys(x.nodes ?? fail('there are no nodes'))) ids.set(id, newID());
  for (const [id, node] of Object.entries(x.nodes)) {
    if (!roles.includes(node?.role) || !isText(node.content)) fail(`the node ${id.slice(0, 40)} has no role and content`);
    if (node.parent !== '' && !ids.has(node.parent)) fail(`the node ${id.slice(0, 40)} has no parent`);
    const files = (Array.isArray(node.files) ? node.files : [])
      .filter((file) => isText(file?.name) && isText(file?.text))
      .map(({ name, text }) => ({ name, text, size: new Blob([text]).size }));
    const calls = node.role === 'assistant' ? callsIn(node.calls) : [];
    const answer = { call: isText(node.call) ? node.call : '', name: isText(node.name) ? node.name : '' };
    c.nodes[ids.get(id)] = {
      id: ids.get(id), parent: node.parent && ids.get(node.parent), role: node.role, content: node.content, files,
      created: Number.isFinite(node.created) ? node.created : 0, revision: 1, state: 'done',
      ...(calls.length && { calls }), ...(node.role === 'tool' && answer),
    };
  }
  for (const id of Object.keys(c.nodes)) {
    const seen = new Set();
    for (let node = c.nodes[id]; node; node = c.nodes[node.parent]) {
      if (seen.has(node.id)) fail('a node is its own ancestor');
      seen.add(node.id);
    }
  }
  for (const [parent, child] of Object.entries(x.choice ?? {})) {
    if (ids.has(child)) c.choice[parent && ids.get(parent)] = ids.get(child);
  }
  return c;
}
