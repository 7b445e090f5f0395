// store saves conversations in the browser's IndexedDB: heads for the list, bodies with everything. Each write merges
// the stored version with the new one in a single transaction, and notifies other windows.

import { merge, title } from './tree.js';

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('hippo') : null;
const memory = new Map(); // used if the browser has no storage
let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('hippo', 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('heads', { keyPath: 'id' });
      request.result.createObjectStore('bodies', { keyPath: 'id' });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }).catch(() => null);
  return opened;
}

const result = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const finished = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = resolve;
  transaction.onabort = () => reject(transaction.error);
});

const head = (c) => ({ id: c.id, title: title(c), kind: c.kind, changed: c.changed });

// heads lists the conversations, the last changed first.
export async function heads() {
  const db = await open();
  const all = db ? await result(db.transaction('heads').objectStore('heads').getAll()) : [...memory.values()].map(head);
  return all.sort((a, b) => b.changed - a.changed);
}

// load returns a conversation, undefined for none.
export async function load(id) {
  const db = await open();
  return db ? result(db.transaction('bodies').objectStore('bodies').get(id)) : memory.get(id);
}

// save stores a conversation. It first merges what another window has added into c.
export async function save(c) {
  const db = await open();
  if (!db) {
    memory.set(c.id, c);
    return;
  }
  const transaction = db.transaction(['heads', 'bodies'], 'readwrite');
  const bodies = transaction.objectStore('bodies');
  const old = await result(bodies.get(c.id));
  if (old) merge(c, old);
  bodies.put(c);
  transaction.objectStore('heads').put(head(c));
  await finished(transaction);
  channel?.postMessage({ saved: c.id });
}

// remove deletes a conversation.
export async function remove(id) {
  const db = await open();
  memory.delete(id);
  if (!db) return;
  const transaction = db.transaction(['heads', 'bodies'], 'readwrite');
  transaction.objectStore('heads').delete(id);
  transaction.objectStore('bodies').delete(id);
  await finished(transaction);
  channel?.postMessage({ removed: id });
}

// onOthers calls a function whenever another window saves or removes a conversation.
export function onOthers(f) { channel?.addEventListener('message', (event) => f(event.data)); }
