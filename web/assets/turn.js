// turn requests replies of a model and stores them in nodes as they arrive.

import { LostConnection, stream } from './api.js';
import { formatOf, toolsOf } from './tools.js';
import { ancestors, messagesOf } from './tree.js';

// tops is the number of alternatives requested for each token.
const tops = 5;

// textTokens is the default number of tokens by which a text is continued.
const textTokens = 200;

// numbers are the sampling settings that are numbers.
const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens'];

// stops returns the stop strings of a conversation, which its settings hold one per line, with \n for a line end.
function stops(settings) {
  return (settings.stop ?? '').split('\n').filter((line) => line !== '')
    .map((line) => line.replace(/\\([nt\\])/g, (_, x) => ({ n: '\n', t: '\t', '\\': '\\' })[x]));
}

// sampling returns the sampling parameters of a request. It always has a seed, so that a reply can be reproduced.
function sampling(c, nodes) {
  const fields = { model: c.model, seed: nodes[0].seed };
  for (const name of numbers) if (Number.isFinite(c.settings[name])) fields[name] = c.settings[name];
  if (stops(c.settings).length) fields.stop = stops(c.settings);
  if (nodes.length > 1) fields.n = nodes.length;
  return fields;
}

// messages returns the messages before a reply and, if a reply is continued, its beginning.
function messages(c, node) {
  const all = messagesOf(c, ancestors(c, node.parent));
  if (node.content) all.push({ role: 'assistant', content: node.content });
  return all;
}

function body(c, nodes) {
  const [node] = nodes;
  if (c.kind === 'text') {
    const prompt = ancestors(c, node.parent).map((one) => one.content).join('') + node.content;
    return {
      path: '/v1/completions',
      fields: { max_tokens: textTokens, ...sampling(c, nodes), prompt, ...(c.showTokens && { logprobs: tops }) },
    };
  }
  const tools = toolsOf(c.settings.tools);
  const format = formatOf(c.settings.schema);
  return {
    path: '/v1/chat/completions',
    fields: {
      ...sampling(c, nodes), messages: messages(c, node),
      ...(node.content && { continue_final_message: true }),
      ...(tools.length && { tools, tool_choice: c.settings.tool_choice || 'auto' }),
      ...(format && { response_format: format }),
      ...(c.showTokens && { logprobs: true, top_logprobs: tops }),
    },
  };
}

// tokensOf returns the tokens of a piece of a reply, each with its text, log-probability and alternatives.
function tokensOf(choice) {
  const { logprobs } = choice;
  if (!logprobs) return [];
  if (logprobs.content) {
    return logprobs.content.map((t) => [t.token, t.logprob, t.top_logprobs.map((o) => [o.token, o.logprob])]);
  }
  return logprobs.tokens.map((text, i) => [
    text, logprobs.token_logprobs[i], Object.entries(logprobs.top_logprobs[i] ?? {}).sort((a, b) => b[1] - a[1]),
  ]);
}

// Turn is one request for replies, one for each of its nodes.
export class Turn {
  constructor(c, nodes, changed) {
    this.conversation = c;
    this.nodes = nodes;
    this.changed = changed; // called with a node that has new text, and without one at the end
    this.abort = new AbortController();
    this.tokens = 0;
    this.begun = performance.now();
    this.first = 0; // when the first token arrived
  }

  stop() { this.abort.abort(); }

  // run returns when the replies have ended. An error that ended them is stored in their nodes.
  async run() {
    const before = this.nodes.map((node) => node.tokens?.length ?? 0);
    for (const node of this.nodes) {
      Object.assign(node, { state: 'running', error: '', model: this.conversation.model });
      node.stats = { prompt: 0, cached: 0, made: 0, first: 0, ms: 0 };
      if (!node.content) delete node.thoughts; // they are sent again
      delete node.calls;
    }
    this.changed(this.nodes[0]);
    let state = 'done';
    let message = '';
    try {
      const { path, fields } = body(this.conversation, this.nodes);
      for await (const event of stream(path, fields, this.abort.signal)) this.take(event);
    } catch (error) {
      state = { AbortError: 'stopped' }[error.name] ?? (error instanceof LostConnection ? 'lost' : 'failed');
      message = state === 'stopped' ? '' : error.message;
      this.error = error;
    }
    this.nodes.forEach((node, i) => {
      if (node.state !== 'running') return;
      node.state = state;
      node.error = message;
      if ((node.tokens?.length ?? 0) <= before[i]) delete node.tokens;
      node.revision++;
    });
    this.changed();
  }

  take(event) {
    const now = performance.now();
    for (const choice of event.choices) {
      const node = this.nodes[choice.index];
      const text = choice.delta ? choice.delta.content ?? '' : choice.text;
      const thoughts = choice.delta?.reasoning_content ?? '';
      const tokens = tokensOf(choice);
      const calls = choice.delta?.tool_calls ?? [];
      if (text || thoughts || tokens.length || calls.length) {
        this.first ||= now;
        const made = tokens.length || 1;
        this.tokens += made;
        node.content += text;
        if (thoughts) node.thoughts = (node.thoughts ?? '') + thoughts;
        else if (tokens.length) (node.tokens ??= []).push(...tokens);
        for (const { id, type, function: called } of calls) (node.calls ??= []).push({ id, type, function: called });
        Object.assign(node.stats, {
          made: node.stats.made + made, first: this.first - this.begun, ms: now - this.first,
        });
        node.revision++;
        this.changed(node);
      }
      if (choice.finish_reason) node.finish = choice.finish_reason;
    }
    if (event.usage) this.used(event.usage);
  }

  used(usage) {
    for (const node of this.nodes) {
      node.stats.prompt = usage.prompt_tokens;
      node.stats.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      node.stats.miss = usage.prompt_tokens_details?.cache_miss;
      if (this.nodes.length > 1) node.stats.counted = Boolean(node.tokens);
      else Object.assign(node.stats, { made: usage.completion_tokens, counted: true });
    }
  }

  // speed returns the tokens per second of all replies together.
  speed() {
    return this.first ? (this.tokens - 1) / Math.max(performance.now() - this.first, 1) * 1000 : 0;
  }
}
