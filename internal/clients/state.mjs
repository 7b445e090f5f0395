// Reads a file of a session: node state.mjs FILE
// It follows docs/state-format.md and shares no code with hippo. It checks the checksum, the content hash and the
// signature, and prints a line of JSON for the header and one for each tensor.
import { createHash, createPublicKey, verify } from "node:crypto"
import { readFileSync } from "node:fs"

const sha256 = (...parts) => parts.reduce((h, p) => h.update(p), createHash("sha256")).digest()
const fail = (what) => { throw new Error(what) }

// The table of CRC-32C (Castagnoli), reflected.
const table = Uint32Array.from({ length: 256 }, (_, c) => {
	for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1
	return c >>> 0
})

function crc32c(data) {
	let c = ~0
	for (const byte of data) c = table[(c ^ byte) & 255] ^ (c >>> 8)
	return ~c >>> 0
}

// The checksum: SHA-256 of the CRC-32C of each block of 64 KiB. A shorter last block counts, even an empty one.
function checksum(data) {
	const block = 64 << 10, sums = []
	for (let at = 0; at <= data.length; at += block) {
		const sum = Buffer.alloc(4)
		sum.writeUInt32LE(crc32c(data.subarray(at, at + block)))
		sums.push(sum)
	}
	return sha256(...sums)
}

// An Ed25519 key from its 32 bytes: node wants them in DER.
const keyOf = (bytes) => createPublicKey({
	key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), bytes]), format: "der", type: "spki",
})

const sizes = { U8: 1, I8: 1, BF16: 2, F32: 4, I32: 4 }

// read returns the header of the session, the tensors by name, the content hash, and who signed.
function read(file) {
	if (file.subarray(0, 16).toString("latin1") === "hippo sealed 1\r\n") fail("the file is encrypted")
	if (file.length < 8 + 32) fail("the file is too short")
	const length = Number(file.readBigUInt64LE())
	if (length > file.length - 8) fail("the header does not fit into the file")
	const list = JSON.parse(file.subarray(8, 8 + length).toString("utf8")), data = file.subarray(8 + length)
	const header = JSON.parse(list.__metadata__["hippo session"])
	if (header.version > 4) fail(`version ${header.version} is unknown`)
	delete list.__metadata__
	const tensors = new Map()
	let end = 0
	for (const [name, t] of Object.entries(list).sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0])) {
		const [from, to] = t.data_offsets
		const elements = t.shape.reduce((n, k) => n * k, 1)
		if (from !== end || to - from !== elements * sizes[t.dtype]) fail(`tensor ${name} is not where it should be`)
		tensors.set(name, { dtype: t.dtype, shape: t.shape, data: data.subarray(from, to) })
		end = to
	}
	if (end !== data.length) fail("the tensors do not fill the file")
	const sum = tensors.get("checksum")?.data, signature = tensors.get("signature")?.data
	if (signature && list.signature.data_offsets[1] !== data.length - 32) fail("the signature is not at its place")
	if (sum?.length !== 32 || !checksum(file.subarray(0, -32)).equals(sum)) fail("the checksum does not match")
	const content = file.subarray(0, signature ? -128 : -32), hash = sha256(content)
	let signer = null
	if (signature) {
		const key = signature.subarray(0, 32), message = Buffer.concat([Buffer.from("hippo session\n"), hash])
		if (key.every((b) => b === 0) || !verify(null, message, keyOf(key), signature.subarray(32))) fail("the signature does not match")
		signer = "ed25519:" + key.toString("hex")
	}
	const ids = tensors.get("ids")
	if (header.text_sha256 && sha256(ids.data).toString("hex") !== header.text_sha256) fail("the ids do not match")
	return { header, tensors, hash: hash.toString("hex"), signer }
}

// value returns element i of a tensor as a number; scale are the factors of the rows of one in I8.
function value({ dtype, shape, data }, i, scale) {
	switch (dtype) {
	case "F32": return data.readFloatLE(4 * i)
	case "I32": return data.readInt32LE(4 * i)
	case "I8": return Math.fround(data.readInt8(i) * value(scale, Math.floor(i / shape.at(-1))))
	case "BF16": {
		const wide = Buffer.alloc(4)
		wide.writeUInt16LE(data.readUInt16LE(2 * i), 2)
		return wide.readFloatLE()
	}
	}
	return data[i]
}

try {
	const { header, tensors, hash, signer } = read(readFileSync(process.argv[2]))
	console.log(JSON.stringify({ hash, signer, header }))
	for (const [name, t] of tensors) {
		const scale = tensors.get(name.replace(".state.", ".scale."))
		let sum = 0
		for (let i = 0; i < t.shape.reduce((n, k) => n * k, 1); i++) sum += value(t, i, scale)
		console.log(JSON.stringify({ name, dtype: t.dtype, shape: t.shape, sum: Number.isNaN(sum) ? null : sum }))
	}
} catch (e) {
	console.error(`${process.argv[2]}: ${e.message}`)
	process.exit(1)
}
