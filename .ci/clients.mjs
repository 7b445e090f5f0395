// Tests hippo serve with npm's clients: node clients.mjs openai|anthropic|ollama ADDRESS [KEY]. .ci/npm-clients starts
// the server.
import assert from 'node:assert/strict'

const [which, address, key] = process.argv.slice(2)
const steps = []
const step = (name, f) => steps.push([name, f])
const numbers = (x, n) => {
	assert.equal(x.length, n)
	const square = x.reduce((sum, v) => sum + v * v, 0)
	assert.ok(Math.abs(square - 1) < 1e-5, `the square of the length is ${square}`)
}

if (which === 'openai') {
	const { default: OpenAI, toFile, AuthenticationError, BadRequestError, NotFoundError } = await import('openai')
	const c = new OpenAI({ baseURL: address + '/v1', apiKey: key, maxRetries: 0 })
	const chat = { model: 'tiny', messages: [{ role: 'user', content: 'Call me' }], max_completion_tokens: 12, seed: 1 }

	step('models', async () => {
		const list = await c.models.list()
		assert.deepEqual(list.data.map((m) => m.id), ['tiny'])
		assert.equal((await c.models.retrieve('tiny')).object, 'model')
	})
	step('completions', async () => {
		const q = { model: 'tiny', prompt: 'Call me', max_tokens: 10, seed: 2, n: 2, logprobs: 2 }
		const a = await c.completions.create(q)
		assert.equal(a.choices.length, 2)
		assert.equal(a.usage.completion_tokens, 20)
		assert.equal(a.choices[1].logprobs.tokens.length, 10)
		const texts = ['', '']
		for await (const part of await c.completions.create({ ...q, stream: true })) {
			for (const choice of part.choices) texts[choice.index] += choice.text
		}
		assert.deepEqual(texts, a.choices.map((choice) => choice.text))
	})
	step('chat', async () => {
		const a = await c.chat.completions.create({ ...chat, logprobs: true, top_logprobs: 3 })
		assert.equal(a.choices[0].message.role, 'assistant')
		assert.equal(a.choices[0].logprobs.content[0].top_logprobs.length, 3)
		const runner = c.chat.completions.stream({ ...chat, stream_options: { include_usage: true } })
		let text = ''
		runner.on('content', (delta) => (text += delta))
		const whole = await runner.finalChatCompletion()
		assert.equal(text, a.choices[0].message.content)
		assert.equal(whole.usage.completion_tokens, a.usage.completion_tokens)
	})
	step('structured replies', async () => {
		const schema = { type: 'object', required: ['big'], properties: { big: { type: 'boolean' } }, additionalProperties: false }
		const a = await c.chat.completions.create({
			...chat, max_completion_tokens: 150, response_format: { type: 'json_schema', json_schema: { name: 'size', schema } },
		})
		assert.equal(typeof JSON.parse(a.choices[0].message.content).big, 'boolean')
	})
	step('zod, and generateObject', async () => {
		const { z } = await import('zod')
		const { zodResponseFormat, zodTextFormat } = await import('openai/helpers/zod')
		const { generateObject } = await import('ai')
		const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
		const plain = z.object({
			mail: z.email(), id: z.uuid(), day: z.iso.date(), span: z.iso.duration(), address: z.ipv4(), code: z.nanoid(),
			price: z.number().multipleOf(0.01).positive().max(99.5), part: z.number().min(0.5).max(2.75),
			n: z.int().multipleOf(5).min(0).max(100), word: z.string().regex(/^(?!ab)[a-c]{2}$/).nullable(),
			kind: z.union([z.object({ t: z.literal('a'), x: z.int() }), z.object({ t: z.literal('b') })]),
		})
		const rich = plain.extend({
			pair: z.tuple([z.boolean(), z.enum(['x', 'y'])]), of: z.record(z.enum(['a', 'b']), z.int32()),
			keyed: z.record(z.string().regex(/^k_[a-z]$/), z.boolean()), both: z.string().startsWith('a').max(9).endsWith('z'),
		})
		for (const seed of [1, 2]) {
			const q = { ...chat, seed, max_completion_tokens: 3000, response_format: zodResponseFormat(plain, 'thing') }
			plain.parse((await c.chat.completions.parse(q)).choices[0].message.parsed)
			const r = await c.responses.parse({
				model: 'tiny', input: 'Call me', max_output_tokens: 3000, text: { format: zodTextFormat(plain, 'thing') },
			})
			plain.parse(r.output_parsed)
			const provider = createOpenAICompatible({
				name: 'hippo', baseURL: address + '/v1', apiKey: key, supportsStructuredOutputs: true,
			})
			const a = await generateObject({
				model: provider('tiny'), schema: rich, prompt: 'Call me', seed, maxOutputTokens: 3000, maxRetries: 0,
			})
			rich.parse(a.object)
		}
	})
	step('abort', async () => {
		const stop = new AbortController()
		const stream = await c.chat.completions.create(
			{ ...chat, max_completion_tokens: 10000, ignore_eos: true, stream: true }, { signal: stop.signal })
		let n = 0
		for await (const _ of stream) if (++n === 3) stop.abort()
		assert.ok(n >= 3)
		const again = await c.chat.completions.create(
			{ ...chat, max_completion_tokens: 10000, ignore_eos: true, stream: true })
		for await (const _ of again) break
		assert.equal((await c.models.list()).data.length, 1)
	})
	step('errors', async () => {
		await assert.rejects(c.chat.completions.create({ ...chat, temperature: -1 }), (e) => {
			assert.ok(e instanceof BadRequestError)
			assert.equal(e.param, 'temperature')
			assert.equal(e.type, 'invalid_request_error')
			assert.match(e.requestID, /^req_/)
			return true
		})
		await assert.rejects(c.chat.completions.create({ ...chat, model: 'other' }), (e) =>
			e instanceof NotFoundError && e.code === 'model_not_found')
		const stranger = new OpenAI({ baseURL: address + '/v1', apiKey: 'x', maxRetries: 0 })
		await assert.rejects(stranger.models.list(), AuthenticationError)
	})
	step('embeddings', async () => {
		const q = { model: 'tiny', input: ['Call me Ishmael.', 'Some years ago'] }
		const coded = await c.embeddings.create(q) // the client requests base64 and decodes it
		const plain = await c.embeddings.create({ ...q, encoding_format: 'float' })
		assert.equal(coded.data.length, 2)
		for (const i of [0, 1]) {
			numbers(coded.data[i].embedding, plain.data[i].embedding.length)
			coded.data[i].embedding.forEach((x, j) =>
				assert.ok(Math.abs(x - plain.data[i].embedding[j]) < 1e-6))
		}
		const few = await c.embeddings.create({ ...q, input: q.input[0], dimensions: 8 })
		numbers(few.data[0].embedding, 8)
		assert.equal(few.usage.total_tokens, few.usage.prompt_tokens)
	})
	step('files and batches', async () => {
		const bodies = [1, 2, 3, 4, 5].map((seed) => ({ ...chat, seed }))
		const lines = bodies.map((body, i) =>
			JSON.stringify({ custom_id: 'q' + i, method: 'POST', url: '/v1/chat/completions', body }))
		lines.push('{"custom_id":"bad"')
		const file = await c.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' })
		assert.equal(file.filename, 'in.jsonl')
		assert.equal((await c.files.retrieve(file.id)).bytes, lines.join('\n').length)
		assert.equal(await (await c.files.content(file.id)).text(), lines.join('\n'))
		let batch = await c.batches.create({
			input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { of: 'npm' },
		})
		for (let i = 0; i < 600 && !batch.completed_at; i++) {
			await new Promise((done) => setTimeout(done, 100))
			batch = await c.batches.retrieve(batch.id)
		}
		assert.equal(batch.status, 'completed')
		assert.deepEqual(batch.request_counts, { total: 6, completed: 5, failed: 1 })
		const out = (await (await c.files.content(batch.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l))
		for (const [i, line] of out.entries()) {
			const alone = await c.chat.completions.create(bodies[i])
			assert.equal(line.custom_id, 'q' + i)
			assert.equal(line.response.status_code, 200)
			assert.deepEqual(line.response.body.choices, alone.choices)
		}
		const faults = await (await c.files.content(batch.error_file_id)).text()
		assert.match(faults, /invalid_line/)
		const seen = []
		for await (const f of c.files.list({ limit: 1 })) seen.push(f.id) // page by page
		assert.equal(seen.length, 3)
		for await (const b of c.batches.list({ limit: 1 })) assert.equal(b.id, batch.id)
		for (const id of seen) assert.ok((await c.files.delete(id)).deleted)
		await assert.rejects(c.files.retrieve(file.id), NotFoundError)
		assert.equal((await c.batches.cancel(batch.id)).status, 'completed')
	})
	step('responses', async () => {
		const there = await fetch(address + '/v1/responses', { method: 'POST', headers: { Authorization: 'Bearer ' + key }, body: '{}' })
		if (there.status === 404) return 'this server has none'
		const a = await c.responses.create({ model: 'tiny', input: 'Call me', max_output_tokens: 16 })
		assert.equal(typeof a.output_text, 'string')
		const b = await c.responses.create({
			model: 'tiny', input: 'and', max_output_tokens: 16, previous_response_id: a.id,
		})
		assert.equal(b.previous_response_id, a.id)
		const referred = await c.responses.create({
			model: 'tiny', max_output_tokens: 16,
			input: [{ role: 'user', content: 'Call me' }, { type: 'item_reference', id: a.output[0].id }, { role: 'user', content: 'and' }],
		})
		assert.equal(typeof referred.output_text, 'string')
		let text = ''
		for await (const e of await c.responses.create({ model: 'tiny', input: 'Call me', max_output_tokens: 16, stream: true })) {
			if (e.type === 'response.output_text.delta') text += e.delta
		}
		assert.ok(text.length > 0)
	})
	step('conversations, counts, compaction', async () => {
		const q = { model: 'tiny', input: 'and', max_output_tokens: 8 }
		const talk = await c.conversations.create({ items: [{ role: 'user', content: 'Call me' }], metadata: { of: 'npm' } })
		const { input_tokens } = await c.responses.inputTokens.count({ model: 'tiny', input: 'and', conversation: talk.id })
		const a = await c.responses.create({ ...q, conversation: talk.id })
		assert.equal(a.usage.input_tokens, input_tokens)
		const { data: [added] } = await c.conversations.items.create(talk.id, { items: [{ role: 'user', content: 'wait' }] })
		const ids = []
		for await (const item of c.conversations.items.list(talk.id, { limit: 1, order: 'asc' })) ids.push(item.id)
		assert.equal(ids.length, 4)
		assert.equal(ids[3], added.id)
		assert.equal((await c.conversations.items.retrieve(ids[0], { conversation_id: talk.id })).content[0].text, 'Call me')
		await c.conversations.items.delete(added.id, { conversation_id: talk.id })
		assert.equal((await c.conversations.update(talk.id, { metadata: { of: 'ships' } })).metadata.of, 'ships')
		assert.equal((await c.conversations.retrieve(talk.id)).metadata.of, 'ships')
		assert.ok((await c.conversations.delete(talk.id)).deleted)
		const short = await c.responses.compact({ model: 'tiny', previous_response_id: a.id })
		const b = await c.responses.create({ ...q, input: [...short.output, { role: 'user', content: 'so' }] })
		assert.ok(b.usage.input_tokens > input_tokens)
	})
	step('responses in the background', async () => {
		const q = { model: 'tiny', input: 'Call me', max_output_tokens: 8, background: true, seed: 1 }
		let a = await c.responses.create(q)
		for (let i = 0; i < 600 && ['queued', 'in_progress'].includes(a.status); i++) {
			await new Promise((done) => setTimeout(done, 20))
			a = await c.responses.retrieve(a.id)
		}
		assert.ok(['completed', 'incomplete'].includes(a.status))
		let id
		for await (const e of await c.responses.create({ ...q, stream: true })) if ((id = e.response?.id)) break
		let text = ''
		let number = 1
		for await (const e of await c.responses.retrieve(id, { stream: true, starting_after: 0 })) {
			assert.equal(e.sequence_number, number++)
			if (e.type === 'response.output_text.delta') text += e.delta
		}
		assert.equal(text, a.output_text)
		const long = await c.responses.create({ ...q, max_output_tokens: 16000, ignore_eos: true })
		assert.equal((await c.responses.cancel(long.id)).status, 'cancelled')
		await assert.rejects(c.responses.create({ ...q, store: false }), (e) => e.param === 'background')
	})
} else if (which === 'anthropic') {
	const { default: Anthropic, AuthenticationError, BadRequestError, NotFoundError } = await import('@anthropic-ai/sdk')
	const c = new Anthropic({ baseURL: address, apiKey: key, maxRetries: 0 })
	const cached = { type: 'ephemeral' }
	const q = {
		model: 'tiny', max_tokens: 12, temperature: 0, messages: [{ role: 'user', content: 'Call me' }],
		system: [{ type: 'text', text: 'Be brief. '.repeat(30), cache_control: cached }],
	}

	step('models', async () => {
		for await (const m of c.models.list()) assert.equal(m.display_name, 'tiny')
		assert.equal((await c.models.retrieve('tiny')).type, 'model')
	})
	step('messages', async () => {
		const a = await c.messages.create(q)
		const runner = c.messages.stream(q)
		let text = ''
		runner.on('text', (delta) => (text += delta))
		const whole = await runner.finalMessage()
		assert.equal(text, a.content[0].text)
		assert.deepEqual(whole.content, a.content)
		assert.equal(whole.stop_reason, 'max_tokens')
		const prompt = (u) => u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens
		const { input_tokens } = await c.messages.countTokens({ model: 'tiny', messages: q.messages, system: q.system })
		assert.deepEqual([prompt(a.usage), prompt(whole.usage), whole.usage.cache_read_input_tokens], Array(3).fill(input_tokens))
		const stop = a.content[0].text.slice(3, 5)
		const b = await c.messages.create({ ...q, stop_sequences: [stop] })
		assert.deepEqual([b.stop_reason, b.stop_sequence], ['stop_sequence', stop])
	})
	step('a reply of a schema', async () => {
		const schema = { type: 'object', required: ['big'], properties: { big: { type: 'boolean' } }, additionalProperties: false }
		const a = await c.messages.create({ ...q, max_tokens: 150, output_config: { format: { type: 'json_schema', schema } } })
		assert.equal(typeof JSON.parse(a.content[0].text).big, 'boolean')
	})
	step('batches', async () => {
		const requests = [1, 2, 3].map((n) => ({ custom_id: 'q' + n, params: { ...q, max_tokens: n } }))
		requests.push({ custom_id: 'bad', params: { ...q, top_p: 7 } })
		let batch = await c.messages.batches.create({ requests })
		for (let i = 0; i < 600 && batch.processing_status !== 'ended'; i++) {
			await new Promise((done) => setTimeout(done, 50))
			batch = await c.messages.batches.retrieve(batch.id)
		}
		assert.deepEqual(batch.request_counts, { processing: 0, succeeded: 3, errored: 1, canceled: 0, expired: 0 })
		const found = {}
		for await (const line of await c.messages.batches.results(batch.id)) found[line.custom_id] = line.result
		for (const { custom_id, params } of requests.slice(0, 3)) {
			assert.deepEqual(found[custom_id].message.content, (await c.messages.create(params)).content)
		}
		assert.equal(found.bad.error.error.type, 'invalid_request_error')
		for await (const b of c.messages.batches.list({ limit: 1 })) assert.equal(b.id, batch.id)
		assert.equal((await c.messages.batches.cancel(batch.id)).processing_status, 'ended')
		assert.equal((await c.messages.batches.delete(batch.id)).type, 'message_batch_deleted')
		await assert.rejects(c.messages.batches.retrieve(batch.id), NotFoundError)
	})
	step('errors', async () => {
		const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } }
		await assert.rejects(c.messages.create({ ...q, messages: [{ role: 'user', content: [image] }] }), (e) =>
			e instanceof BadRequestError && e.requestID?.length > 0 && /image/.test(e.message))
		await assert.rejects(c.messages.create({ ...q, model: 'claude' }), NotFoundError)
		await assert.rejects(new Anthropic({ baseURL: address, apiKey: 'none', maxRetries: 0 }).messages.create(q), AuthenticationError)
	})
} else {
	const { Ollama } = await import('ollama')
	const c = new Ollama({ host: address })
	const options = { num_predict: 12, seed: 1, temperature: 0.5 }
	const messages = [{ role: 'user', content: 'Call me' }]

	step('list, ps, show', async () => {
		assert.deepEqual((await c.list()).models.map((m) => m.name.replace(/:latest$/, '')), ['tiny'])
		assert.ok(Array.isArray((await c.ps()).models))
		const shown = await c.show({ model: 'tiny' })
		assert.ok(shown.capabilities.includes('completion'))
		assert.ok(shown.model_info['general.parameter_count'] > 0)
	})
	step('generate', async () => {
		const a = await c.generate({ model: 'tiny', prompt: 'Call me', options })
		assert.equal(a.done, true)
		assert.ok(a.eval_count > 0 && a.total_duration > 0)
		let text = ''
		for await (const part of await c.generate({ model: 'tiny', prompt: 'Call me', options, stream: true })) text += part.response
		assert.equal(text, a.response)
	})
	step('chat', async () => {
		const a = await c.chat({ model: 'tiny', messages, options })
		assert.equal(a.message.role, 'assistant')
		let text = ''
		let last
		for await (const part of await c.chat({ model: 'tiny', messages, options, stream: true })) {
			text += part.message.content
			last = part
		}
		assert.equal(text, a.message.content)
		assert.equal(last.done, true)
	})
	step('abort', async () => {
		const stream = await c.chat({ model: 'tiny', messages, options: { num_predict: 10000 }, stream: true })
		let n = 0
		await assert.rejects(async () => {
			for await (const _ of stream) if (++n === 2) stream.abort()
		}, { name: 'AbortError' })
	})
	step('embed', async () => {
		const a = await c.embed({ model: 'tiny', input: ['Call me Ishmael.', 'Some years ago'] })
		assert.equal(a.embeddings.length, 2)
		for (const e of a.embeddings) numbers(e, a.embeddings[0].length)
		const b = await c.embeddings({ model: 'tiny', prompt: 'Call me Ishmael.' })
		assert.deepEqual(b.embedding, a.embeddings[0])
	})
	step('errors', async () => {
		await assert.rejects(c.chat({ model: 'other', messages }), (e) => e.status_code === 404 && /other/.test(e.message))
		await assert.rejects(c.generate({ model: 'tiny', prompt: 'a', options: { top_p: 7 } }), (e) => e.status_code === 400)
	})
	step('copy, log-probabilities, delete', async () => {
		await c.copy({ source: 'tiny', destination: 'other' })
		const a = await c.generate({ model: 'other', prompt: 'Call me', options, logprobs: true, top_logprobs: 2 })
		assert.equal(a.logprobs[0].top_logprobs.length, 2)
		await c.delete({ model: 'other' })
		await assert.rejects(c.show({ model: 'other' }), (e) => e.status_code === 404)
	})
	step('version', async () => assert.equal(typeof (await c.version()).version, 'string'))
}

for (const [name, f] of steps) {
	try {
		const said = await f()
		console.log(`${which} ${name}: ${said ?? 'ok'}`)
	} catch (e) {
		console.error(`${which} ${name}: FAILED`)
		console.error(e)
		process.exitCode = 1
	}
}
