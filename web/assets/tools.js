// tools parses two settings of a conversation that the user writes as JSON: the functions that the model may call, and
// the JSON schema of its replies.

const isObject = (x) => typeof x === 'object' && x !== null && !Array.isArray(x);

function parse(what, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} in the settings: this is not JSON: ${error.message}.`);
  }
}

// toolsOf returns the functions in a text: one or a list, each in the format of OpenAI's chat completions or responses,
// or the bare function. An empty text has none.
export function toolsOf(text) {
  if (!text?.trim()) return [];
  const value = parse('Tools', text);
  return (Array.isArray(value) ? value : [value]).map((one, i) => {
    const { type = 'function', ...own } = isObject(one?.function) ? { type: one.type, ...one.function } : one ?? {};
    if (type !== 'function' || typeof own.name !== 'string' || !own.name) {
      throw new Error(`Tools in the settings: found no function at place ${i + 1}, want {"name": "…", "parameters": {…}}.`);
    }
    return { type, function: own };
  });
}

// formatOf returns the response format for a JSON schema: {} is any object. It is null for an empty text.
export function formatOf(text) {
  if (!text?.trim()) return null;
  const schema = parse('Reply as JSON', text);
  if (!isObject(schema)) throw new Error('Reply as JSON in the settings: this is not an object, want a JSON schema.');
  if (!Object.keys(schema).length) return { type: 'json_object' };
  return { type: 'json_schema', json_schema: { name: 'reply', schema } };
}
