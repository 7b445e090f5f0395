// api talks to the server through its public endpoints.

const keyName = 'hippo.key';
let keyInMemory = '';

export function apiKey() {
  try {
    return sessionStorage.getItem(keyName) ?? keyInMemory;
  } catch {
    return keyInMemory;
  }
}

export function setAPIKey(key) {
  keyInMemory = key;
  try {
    sessionStorage.setItem(keyName, key);
  } catch { /* it holds until the page is left */ }
}

// ServerError is an error that the server reported.
class ServerError extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

// LostConnection is the error when a response breaks off or does not arrive.
export class LostConnection extends Error {}

const lost = 'The connection to the server was lost.';

async function errorOf(response) {
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text);
    if (typeof error === 'string') return new ServerError(response.status, error);
    return new ServerError(response.status, error.message, error.param);
  } catch {
    return new ServerError(response.status, text.slice(0, 400) || `The server responded with status ${response.status}.`);
  }
}

// request sends the body as JSON, or as it is if it is a text, or a GET request if there is none. Aborting it throws an AbortError.
async function request(path, body, signal, method = body ? 'POST' : 'GET') {
  const headers = {};
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  const text = typeof body === 'string';
  if (body) headers['Content-Type'] = text ? 'text/plain' : 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method, headers, body: body && !text ? JSON.stringify(body) : body, signal, credentials: 'omit',
      redirect: 'error', cache: 'no-store',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new LostConnection('The server does not respond.');
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

// ask sends a request and returns the JSON of its response.
export async function ask(path, body, signal) {
  const response = await request(path, body, signal);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new LostConnection(lost);
  }
}

// drop sends a DELETE request.
export async function drop(path) { await request(path, undefined, undefined, 'DELETE'); }

// explained returns the sessions in which the server explains a conversation.
export async function explained(id) {
  const { data } = await ask('/v1/sessions');
  return data.filter((one) => one.metadata?.conversation === id);
}

// explains reports whether the server has the page that explains sessions.
export async function explains() {
  return fetch('/explain', { method: 'HEAD', credentials: 'omit' }).then((answer) => answer.ok, () => false);
}

// stream yields the events of a response. They end with [DONE]; it throws LostConnection if that is missing.
export async function* stream(path, body, signal) {
  const response = await request(path, { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await read(reader);
      if (done) throw new LostConnection(lost);
      rest += value;
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith('data: ')) continue;
        if (line === 'data: [DONE]') return;
        const event = JSON.parse(line.slice(6));
        if (event.error) throw new ServerError(500, event.error.message, event.error.param);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new LostConnection(lost);
  }
}

// models returns the models of the server, sorted by name, and its networks of hippo fit with their descriptions.
export async function models() {
  const { data } = await ask('/v1/models');
  return data.map((one) => ({ name: one.id, known: Boolean(one.predict), predict: one.predict }));
}

// predict returns the predictions of a network for rows as text, in CSV or as JSON objects.
export async function predict(model, rows) {
  const format = rows.trimStart().startsWith('{') ? 'jsonl' : 'csv';
  return ask(`/v1/predict?model=${encodeURIComponent(model)}&format=${format}`, rows || ' ');
}

// describe adds details to a model: its chat template, its default sampling settings and its sizes.
export async function describe(model) {
  const about = await ask('/api/show', { model: model.name });
  const info = about.model_info ?? {};
  return Object.assign(model, {
    known: true, template: about.template ?? '', parameters: about.details?.parameter_size ?? '',
    defaults: defaultsOf(about.parameters), length: info['hippo.context_length'] ?? 0,
    state: info['hippo.state_bytes'] ?? 0, growth: info['hippo.state_bytes_per_token'] ?? 0,
  });
}

// defaultsOf parses Ollama's "parameters": lines with a name and a value.
function defaultsOf(text = '') {
  const defaults = {};
  for (const line of text.split('\n')) {
    const [name, value] = line.trim().split(/\s+/);
    if (name && Number.isFinite(Number(value))) defaults[name === 'repeat_penalty' ? 'repetition_penalty' : name] = Number(value);
  }
  return defaults;
}

// loaded returns the models in memory.
export async function loaded() { return (await ask('/api/ps')).models ?? []; }

// countTokens returns the number of tokens of a text.
export async function countTokens(model, text) {
  return (await ask('/tokenize', { model, prompt: text, add_special_tokens: false })).count;
}
