// Makes testdata/sentencepiece.json: small SentencePiece models, and the ids that the library itself gives for the texts
// of testdata/reference.json. Needs the npm package sentencepiece-js, which is that library compiled to WebAssembly:
//
//	node sentencepiece.js reference.json > sentencepiece.json
const fs = require("fs");
const { SentencePieceProcessor } = require("sentencepiece-js");

const texts = JSON.parse(fs.readFileSync(process.argv[2])).texts.filter((t) => !t.includes("\0"));

// The wire format of protocol buffers.
const varint = (n) => { const out = []; while (n > 127) { out.push((n & 127) | 128); n = Math.floor(n / 128); } return Buffer.from([...out, n]); };
const bytes = (field, b) => Buffer.concat([varint(field * 8 + 2), varint(b.length), b]);
const int = (field, n) => Buffer.concat([varint(field * 8), varint(Number(n))]);
const float = (field, x) => { const b = Buffer.alloc(4); b.writeFloatLE(x); return Buffer.concat([varint(field * 8 + 5), b]); };

// charsmap is the double-array trie of Darts-clone for rules, and their replacements.
function charsmap(rules) {
  let out = Buffer.alloc(0);
  const keys = [...rules].map(([from, to]) => {
    const at = out.length;
    out = Buffer.concat([out, Buffer.from(to), Buffer.from([0])]);
    return [Buffer.from(from), at];
  }).sort((a, b) => Buffer.compare(a[0], b[0]));
  const units = [0], used = [true], bases = new Set();
  const build = (node, list, depth) => {
    const children = new Map(); // label 0 is the end of a key
    for (const k of list) {
      const label = depth < k[0].length ? k[0][depth] : 0;
      if (!children.has(label)) children.set(label, []);
      children.get(label).push(k);
    }
    let base = 1;
    while (bases.has(base) || [...children.keys()].some((c) => used[base ^ c])) base++;
    bases.add(base); // two nodes of one base would have each other's children
    for (const c of children.keys()) used[base ^ c] = true;
    units[node] |= (node ^ base) << 10;
    if (children.has(0)) units[node] |= 1 << 8;
    for (const [c, sub] of children) {
      units[base ^ c] = c === 0 ? (sub[0][1] | 0x80000000) : c;
      if (c !== 0) build(base ^ c, sub, depth + 1);
    }
  };
  build(0, keys, 0);
  const trie = Buffer.alloc((units.length + 256) * 4);
  units.forEach((u, i) => trie.writeUInt32LE((u || 0) >>> 0, i * 4));
  const size = Buffer.alloc(4);
  size.writeUInt32LE(trie.length);
  return Buffer.concat([size, trie, out]);
}
const rules = new Map([["\t", " "], ["\n", " "], ["\r", ""], ["\u200d", " "], ["\u3000", " "]]);
for (const text of texts) {
  const c = [...text];
  for (let i = 0; i < c.length; i++) for (const s of [c[i], c.slice(i, i + 2).join(""), c.slice(i, i + 3).join("")]) {
    if (s.normalize("NFKC") !== s && !s.includes(" ")) rules.set(s, s.normalize("NFKC"));
  }
}

const corpus = `the quick brown fox jumps over the lazy dog. The state of the model is the sum of the states.
It's what we've got, isn't it? They'll say he'd been there. 123 45 6789 2024 3.14 100,000
café naïve über straße 日本語 中文字符 你好世界 привет мир здравствуй hello hello world world tokens token tokenizer
tokenization the the of of in in to to is was a  b   c    d     e word wordy sword`;
const spaced = "▁" + corpus.replace(/[ \n]/g, "▁");
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, BYTE = 6;
const special = [["<unk>", 0, UNKNOWN], ["<s>", 0, CONTROL], ["</s>", 0, CONTROL]];
const fallback = Array.from({ length: 256 }, (_, b) =>
  ["<0x" + b.toString(16).toUpperCase().padStart(2, "0") + ">", 0, BYTE]);

function counts() {
  const count = new Map();
  for (const w of spaced.split(/(?<=[^▁])(?=▁)/)) {
    const c = [...w];
    for (let i = 0; i < c.length; i++) for (let n = 1; n <= 7 && i + n <= c.length; n++) {
      const s = c.slice(i, i + n).join("");
      count.set(s, (count.get(s) || 0) + 1);
    }
  }
  return [...count].filter(([s, n]) => [...s].length === 1 || n > 1)
    .sort((a, b) => b[1] * b[0].length - a[1] * a[0].length || (a[0] < b[0] ? -1 : 1));
}
const unigram = counts().slice(0, 300).map(([s, n]) => [s, Math.log(n / 5000), NORMAL]);

// BPE: merges in the order in which they are learned, then the characters, as the trainer writes them.
function bpe() {
  const words = spaced.split(/(?<=[^▁])(?=▁)/).map((w) => [...w]);
  const pieces = [];
  while (pieces.length < 150) {
    const count = new Map();
    for (const w of words) for (let i = 1; i < w.length; i++) count.set(w[i - 1] + w[i], (count.get(w[i - 1] + w[i]) || 0) + 1);
    const [best, n] = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    if (n < 2) break;
    pieces.push(best);
    for (const w of words) for (let i = 1; i < w.length; i++) if (w[i - 1] + w[i] === best) w.splice(i - 1, 2, best);
  }
  const chars = [...new Set(spaced)].sort();
  return [...new Set([...pieces, ...chars])].map((s, i) => [s, -i, NORMAL]);
}
const user = [["<tool>", 0, USER], ["word", 0, USER], ["  ".replace(/ /g, "▁▁"), 0, USER]];

const model = (pieces, o) => Buffer.concat([
  ...pieces.map(([s, score, kind]) => bytes(1, Buffer.concat([bytes(1, Buffer.from(s)), float(2, score), int(3, kind)]))),
  bytes(2, Buffer.concat([int(3, o.bpe ? 2 : 1), int(4, pieces.length), int(35, o.fallback)])),
  bytes(3, Buffer.concat([bytes(2, o.rules ? charsmap(o.rules) : Buffer.alloc(0)), int(3, o.prefix), int(4, o.squeeze), int(5, true)])),
]);
const cases = {
  "llama": model([...special, ...fallback, ...bpe()], { bpe: true, fallback: true, prefix: true, squeeze: false }),
  "bpe": model([...special, ...bpe()], { bpe: true, fallback: false, prefix: true, squeeze: true, rules }),
  "bpe with user symbols": model([...special, ...user, ...fallback,
    ...bpe().filter(([s]) => !user.some(([u]) => u === s))],
    { bpe: true, fallback: true, prefix: true, squeeze: false }),
  "gemma": model([...special, ...fallback, ...bpe()], { bpe: true, fallback: true, prefix: false, squeeze: false }),
  "t5": model([...special, ...unigram], { bpe: false, fallback: false, prefix: true, squeeze: true, rules }),
  "unigram with bytes": model([...special, ...fallback, ...unigram],
    { bpe: false, fallback: true, prefix: true, squeeze: false, rules }),
};

(async () => {
  const out = [];
  const file = require("path").join(require("os").tmpdir(), "one.model");
  for (const [name, data] of Object.entries(cases)) {
    fs.writeFileSync(file, data);
    const sp = new SentencePieceProcessor();
    await sp.load(file);
    const ids = texts.map((t) => [...sp.encodeIds(t)]);
    const decoded = ids.map((list) => (list.includes(0) ? null : sp.decodeIds(list)));
    out.push(JSON.stringify(name) + ":{\"model\":" + JSON.stringify(data.toString("base64")) + ",\n\"ids\":" +
      JSON.stringify(ids) + ",\n\"decoded\":" + JSON.stringify(decoded) + "}");
  }
  console.log("{\"texts\":" + JSON.stringify(texts) + ",\n\"cases\":{\n" + out.join(",\n") + "}}");
})();
