// tools reads what a conversation says of functions that the model may call, and of the form of its replies: JSON that a
// person has written.

const isObject = (x) => typeof x === 'object' && x !== null && !Array.isArray(x);

function parse(what, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} in the settings: this is not JSON: ${error.message}.`);
  }
}

// toolsOf are the functions of a text: a list of them or one, each as OpenAI's chats have it, as its responses have it, or
// without what stands around it. Without a text there are none.
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

// formatOf is the form of replies for a JSON schema as a text: {} is any object. Without a text it is null.
export function formatOf(text) {
  if (!text?.trim()) return null;
  const schema = parse('Reply as JSON', text);
  if (!isObject(schema)) throw new Error('Reply as JSON in the settings: this is not an object, want a JSON schema.');
  if (!Object.keys(schema).length) return { type: 'json_object' };
  return { type: 'json_schema', json_schema: { name: 'reply', schema } };
}
