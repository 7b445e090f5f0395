// Compares ONNX Runtime's predictions with those of hippo predict, for the files that .ci/onnx has written.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import * as ort from 'onnxruntime-node'

const number = (text) => (text ? Number(text) : NaN)
const array = (x, ...shape) => new ort.Tensor('float64', Float64Array.from(x), shape)
const csv = (file) => {
	const [names, ...rows] = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => line.split(','))
	return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])))
}

// same compares numbers. They may differ by 1e-4 of the largest. NaN must be at the same places.
const same = (what, got, want) => {
	assert.equal(got.length, want.length, what)
	const largest = Math.max(...want.filter((x) => !Number.isNaN(x)).map(Math.abs))
	let worst = 0
	want.forEach((x, i) => {
		assert.equal(Number.isNaN(got[i]), Number.isNaN(x), `${what}, number ${i}: ${got[i]}, want ${x}`)
		if (!Number.isNaN(x)) worst = Math.max(worst, Math.abs(got[i] - x) / largest)
	})
	assert.ok(worst < 1e-4, `${what}: off by ${worst} of the largest`)
	console.log(`   ${what}: ${want.length} numbers, off by ${worst.toExponential(1)} of the largest`)
}

// steps runs a model row by row, and returns the outputs for the last row.
const steps = async (model, rows, width, more) => {
	const { type, shape } = model.inputMetadata.find((input) => input.name === 'state')
	const n = shape.reduce((a, b) => a * b)
	let out = { next_state: new ort.Tensor(type, type === 'float32' ? new Float32Array(n) : new Float64Array(n), shape) }
	for (let i = 0; i < rows.length; i += width) {
		out = await model.run({ rows: array(rows.slice(i, i + width), 1, width), state: out.next_state, ...more })
	}
	return out
}

const open = async (name) => [
	await ort.InferenceSession.create(name + '.onnx', { logSeverityLevel: 3 }),
	await ort.InferenceSession.create(name + '-step.onnx', { logSeverityLevel: 3 }),
]

{
	const [whole, step] = await open('words')
	const [frames] = await open('frames')
	const files = fs.readdirSync('made/words').sort().flatMap((dir) =>
		fs.readdirSync('made/words/' + dir).sort().map((file) => `made/words/${dir}/${file}`))
	const want = csv('words.csv'), byFrames = csv('frames.csv')
	assert.equal(want.length, files.length)
	for (const i of [0, 100]) {
		const wav = fs.readFileSync(files[i])
		const samples = Array.from(new Int16Array(wav.buffer.slice(wav.byteOffset + 44, wav.byteOffset + wav.length)),
			(x) => x / 32768)
		const classes = (row) => ['down', 'flat', 'up'].map((name) => number(row[`p(${name})`]))
		const p = classes(want[i])
		same('a word', (await whole.run({ rows: array(samples, samples.length, 1) })).probabilities.data, p)
		same('a word by its frames', (await frames.run({ samples: array(samples, samples.length, 1) })).probabilities.data,
			classes(byFrames[i]))
		same('a word in steps', (await steps(step, samples, 1)).probabilities.data, p)
	}
}
{
	const [whole, step] = await open('machine')
	const given = csv('made/today.csv').slice(0, 1000), want = csv('machine.csv').slice(0, 1000)
	const rows = given.flatMap((row) => [number(row.load), number(row.vibration)])
	const levels = Object.keys(want[0]).filter((name) => name.startsWith('vibration expected'))
	const quantiles = (row) => levels.map((name) => number(row[name]))
	const out = await whole.run({ rows: array(rows, given.length, 2) })
	same('what is expected', out.quantiles.data, want.flatMap(quantiles))
	same('scores', out.score.data, want.map((row) => number(row.score)))
	const last = await steps(step, rows.slice(0, 600), 2)
	same('what is expected after 299 steps', last.quantiles.data, quantiles(want[299]))
	same('a score', last.score.data, [number(want[299].score)])
}
{
	const [whole, step] = await open('sales')
	for (const shop of ['shop 1', 'shop 3']) {
		const all = csv('made/sales.csv').filter((row) => row.shop === shop)
		const given = all.filter((row) => row.sold), next = all.slice(given.length)
		const rows = given.flatMap((row) => [number(row.price), number(row.sold)])
		const known = array(next.map((row) => number(row.price)), next.length, 1)
		const forecast = csv('sales.csv').filter((row) => row.series === shop)
		const levels = Object.keys(forecast[0]).filter((name) => name.startsWith('sold'))
		const want = forecast.flatMap((row) => levels.map((name) => number(row[name])))
		same(shop, (await whole.run({ rows: array(rows, given.length, 2), known })).quantiles.data, want)
		same(shop + ' in steps', (await steps(step, rows, 2, { known })).quantiles.data, want)
	}
}
