// Makes testdata/reference.json: small tokenizer.json files of every form, texts that are hard to cut, and the ids and
// decoded texts that Hugging Face's own library gives. Needs the npm package @anush008/tokenizers, a binding of that
// library. Run it where the package is installed:
//
//	node reference.js > reference.json
const { Tokenizer } = require(process.env.TOKENIZERS || "@anush008/tokenizers");

const corpus = `the quick brown fox jumps over the lazy dog. The state of the model is the sum of the states.
It's what we've got, isn't it? They'll say he'd been there. 123 45 6789 2024 3.14 100,000
func main() { fmt.Println("hello, world") }  // comment
    for (int i = 0; i < 10; i++) { x[i] += 1; }
café naïve über straße Ångström ﬁne ① ② ½ ２０２４ ＡＢＣ ﷺ
日本語のテキスト 中文字符 你好世界 한국어 문장 привет мир здравствуй
👩‍👩‍👧‍👦 🙂 😀 🇩🇪 👍🏽 e\u0301 a\u0308\u0323 o\u0302\u0323 \u1e69 नमस्ते العربية
the the the and and of of in in to to is is was was hello hello world world tokens token tokenizer tokenization`;

const texts = [
  "", "a", " ", "  ", "hello world", " hello world", "  hello  world  ", "Hello, World! It's 2024, isn't it?",
  "the quick brown fox jumps over the lazy dog", "tabs\tand\nnewlines\r\nand\r\n\r\nmore\n\n\n  indented",
  "    for (int i = 0; i < 10; i++) { x[i] += 1; }\n\treturn x;\n", "123 4567 89,012 3.14159 ½ ² ① ２０２４ ٣",
  "日本語のテキスト、中文字符。你好世界", "한국어 문장 привет мир Здравствуй",
  "👩‍👩‍👧‍👦 family 🙂😀 🇩🇪 👍🏽!", "cafe\u0301 caf\u00e9 a\u0323\u0308 a\u0308\u0323 \u1e69 s\u0323\u0307 \u1100\u1161\u11a8",
  "ﬁne ﷺ ＡＢＣ ① Å \u212b \u2126", "İstanbul ÀÉÎ ΣΑΣ ß ẞ ǅ", "नमस्ते العربية עִבְרִית ไทย",
  "a\u00a0b\u2003c\u200bd\u3000e\u0085f\u2028g", "<s>hello</s> world<s> </s>", "x<|endoftext|>y <|endoftext|> z",
  "say <mask> now <mask>", "word wordy sword word. word", "a<tool>b  <tool>  c<TOOL>d", "--a--b---c--", "a.b,c;;d!!??e",
  "______ $100 + 50% = <x> ^ ` | ~ @#&*", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "▁already▁spaced ▁ x",
  "zzz\u{10ffff}qqq \ufffd \u0000 \u0007 end", "e\u0301\u0301\u0301\u0301x \u0301start", "ⅷ ⅠⅡ ㎏ ㈱ ﬀ ﬃ ſt",
  "a  b   c    d     e", "hello<s>  world", " <s> x", "tokenization tokenizer tokens token", "\n", "\r\n", "\t\t x",
  "x = 'don''t'; y=\"it's\"; z=`I'LL`", "camelCaseXMLHttpRequest snake_case_name SCREAMING", "１２３ 四五六 1234567890",
];

const byteChar = (() => {
  const chars = [];
  let next = 256;
  for (let b = 0; b < 256; b++) {
    const visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    chars.push(String.fromCodePoint(visible ? b : next++));
  }
  return chars;
})();
const toBytes = (s) => [...Buffer.from(s)].map((b) => byteChar[b]);

// trainBPE learns merges from words, lists of symbols.
function trainBPE(words, n) {
  const merges = [];
  words = words.map((w) => [...w]);
  while (merges.length < n) {
    const count = new Map();
    for (const w of words) for (let i = 1; i < w.length; i++) {
      const key = w[i - 1] + "\u0001" + w[i];
      count.set(key, (count.get(key) || 0) + 1);
    }
    let best = null;
    for (const [key, c] of count) if (c > 1 && (!best || c > best[1] || (c === best[1] && key < best[0]))) best = [key, c];
    if (!best) break;
    const [a, b] = best[0].split("\u0001");
    merges.push([a, b]);
    for (const w of words) for (let i = 1; i < w.length; i++) if (w[i - 1] === a && w[i] === b) w.splice(i - 1, 2, a + b);
  }
  return merges;
}

function bpeModel(first, words, n, extra) {
  const vocab = {};
  const add = (t) => { if (!(t in vocab)) vocab[t] = Object.keys(vocab).length; };
  first.forEach(add);
  const merges = trainBPE(words, n);
  merges.forEach(([a, b]) => add(a + b));
  return { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
    fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges, ...extra };
}

const bytesOf = [...byteChar].sort();
const byteWords = corpus.match(/ ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+/gu).map(toBytes);
const byteBPE = (extra) => bpeModel(["<|endoftext|>", ...bytesOf], byteWords, 150, extra);

const spaced = ("▁" + corpus.replace(/ /g, "▁"));
const common = [...new Set(spaced.replace(/[^\x20-\x7e▁éüа-яa\n]/gu, ""))].sort();
const fallback = Array.from({ length: 256 }, (_, b) => "<0x" + b.toString(16).toUpperCase().padStart(2, "0") + ">");
const charWords = spaced.split(/(?=▁)/).map((w) => [...w].filter((c) => common.includes(c)));
const charBPE = (extra) => bpeModel(["<unk>", "<s>", "</s>", ...fallback, ...common], charWords, 150,
  { unk_token: "<unk>", ...extra });
const plainBPE = (extra) => bpeModel(["<unk>", "<s>", "</s>", ...common.filter((c) => c !== "▁"), " ", "é", "ü", "語"],
  corpus.split(/[^\p{L}\p{N}]+/u).map((w) => [...w.toLowerCase()].filter((c) => common.includes(c))), 120,
  { unk_token: "<unk>", ...extra });

function unigramModel(extra, bytes) {
  const count = new Map();
  for (const w of spaced.split(/(?=▁)/)) {
    const c = [...w];
    for (let i = 0; i < c.length; i++) for (let n = 1; n <= 6 && i + n <= c.length; n++) {
      const s = c.slice(i, i + n).join("");
      count.set(s, (count.get(s) || 0) + 1);
    }
  }
  const rare = /[日語ÅАЗ👩]/u;
  const keep = [...count].filter(([s, n]) => !rare.test(s) && ([...s].length === 1 || n > 2))
    .sort((a, b) => b[1] * b[0].length - a[1] * a[0].length || (a[0] < b[0] ? -1 : 1)).slice(0, 400);
  const total = keep.reduce((a, [, n]) => a + n, 0);
  const vocab = [["<unk>", 0], ["<s>", 0], ["</s>", 0], ...(bytes ? fallback.map((b) => [b, 0]) : []),
    ...keep.map(([s, n]) => [s, Math.fround(Math.log(n / total))])];
  return { type: "Unigram", unk_id: 0, vocab, byte_fallback: !!bytes, ...extra };
}

const added = (id, content, flags) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false,
  special: true, ...flags });
const llamaAdded = [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")];
const byteLevel = (extra) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true, ...extra });
const metaspace = (extra) => ({ type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true, ...extra });
const split = (pattern, behavior, invert) => ({ type: "Split", pattern: typeof pattern === "string" ? { String: pattern } :
  { Regex: pattern.source }, behavior, invert: !!invert });
const pre = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const norms = (...normalizers) => ({ type: "Sequence", normalizers });
const spm = { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "▁" }, content: " " },
  { type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }] };
const template = (before, after, ids) => ({ type: "TemplateProcessing",
  single: [...before.map((id) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: "A", type_id: 0 } },
    ...after.map((id) => ({ SpecialToken: { id, type_id: 0 } }))],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: Object.fromEntries(Object.entries(ids).map(([t, i]) => [t, { id: t, ids: [i], tokens: [t] }])) });
const file = (model, rest) => ({ version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: null, post_processor: null, decoder: null, model, ...rest });
const lower = { unk_token: "<unk>" };

const llama3 = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` +
  String.raw`|\s+(?!\S)|\s+`;

const cases = {
  // Byte-level BPE, with what published ones have around it.
  "neox": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>"), added(500, "    ", { normalized: true, special: false }),
    added(501, "  ", { normalized: true, special: false })], normalizer: { type: "NFC" }, pre_tokenizer: byteLevel(),
    post_processor: byteLevel(), decoder: byteLevel() }),
  "falcon": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>")], pre_tokenizer: pre({ type: "Punctuation",
    behavior: "Contiguous" }, byteLevel(), { type: "Digits", individual_digits: false }, split(/[0-9][0-9][0-9]/, "Isolated")),
    decoder: byteLevel() }),
  "granite": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>")], pre_tokenizer: pre({ type: "Digits",
    individual_digits: true }, byteLevel()), decoder: byteLevel() }),
  "llama3": file(byteBPE({ ignore_merges: true }), { added_tokens: [added(0, "<|endoftext|>")], pre_tokenizer:
    pre(split({ source: llama3 }, "Isolated"), byteLevel({ use_regex: false })), decoder: byteLevel(),
    post_processor: { type: "Sequence", processors: [byteLevel(), template(["<|endoftext|>"], [], { "<|endoftext|>": 0 })] } }),
  "prefix space": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>"), added(500, "<mask>", { lstrip: true })],
    pre_tokenizer: byteLevel({ add_prefix_space: true }), decoder: byteLevel() }),
  "flags": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>"), added(500, "<mask>", { lstrip: true, rstrip: true }),
    added(501, "word", { single_word: true, special: false }), added(502, "<tool>", { rstrip: true }),
    added(503, "</s>", { lstrip: true }), added(504, "a\u0308\u0323", { normalized: true })], normalizer: { type: "NFC" },
    pre_tokenizer: byteLevel(), decoder: byteLevel() }),
  "lowercase bytes": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>"), added(500, "<TOOL>", { normalized: true })],
    normalizer: norms({ type: "NFKD" }, { type: "StripAccents" }, { type: "Lowercase" }), pre_tokenizer: byteLevel(),
    decoder: byteLevel() }),
  "merged": file(byteBPE(), { added_tokens: [added(0, "<|endoftext|>")], pre_tokenizer: pre(split("-", "MergedWithPrevious"),
    split(/\s/, "MergedWithNext"), split(/[;.!?]/, "Contiguous"), split("_", "Removed"), split(/[^,]+/, "Isolated", true),
    byteLevel({ use_regex: false })), decoder: byteLevel() }),
  // SentencePiece's forms.
  "llama2": file(charBPE({ byte_fallback: true, fuse_unk: true }), { added_tokens: llamaAdded,
    normalizer: norms({ type: "Prepend", prepend: "▁" }, { type: "Replace", pattern: { String: " " }, content: "▁" }),
    decoder: spm, post_processor: template(["<s>"], [], { "<s>": 1 }) }),
  "metaspace first": file(charBPE({ byte_fallback: true }), { added_tokens: llamaAdded, pre_tokenizer: metaspace({
    prepend_scheme: "first", split: false }), decoder: spm, post_processor: template(["<s>"], ["</s>"], { "<s>": 1, "</s>": 2 }) }),
  "metaspace always": file(charBPE({ fuse_unk: true }), { added_tokens: llamaAdded, pre_tokenizer: metaspace(),
    decoder: metaspace() }),
  "metaspace never": file(charBPE(), { added_tokens: llamaAdded, pre_tokenizer: metaspace({ prepend_scheme: "never" }),
    decoder: metaspace({ prepend_scheme: "never" }) }),
  "ignore merges": file(charBPE({ byte_fallback: true, ignore_merges: true }), { added_tokens: llamaAdded,
    normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
    pre_tokenizer: split(/▁/, "MergedWithNext"), decoder: spm }),
  "unigram": file(unigramModel(), { added_tokens: llamaAdded, normalizer: norms({ type: "NFKC" }, { type: "Replace",
    pattern: { Regex: " {2,}" }, content: " " }, { type: "Strip", strip_left: true, strip_right: true }),
    pre_tokenizer: metaspace(), decoder: metaspace(), post_processor: { type: "BertProcessing", sep: ["</s>", 2], cls: ["<s>", 1] } }),
  "unigram bytes": file(unigramModel({}, true), { added_tokens: llamaAdded, pre_tokenizer: metaspace({ split: false,
    prepend_scheme: "first" }), decoder: spm }),
  "unigram whole": file(unigramModel({}, true), { added_tokens: llamaAdded, normalizer: norms({ type: "NFD" }, { type: "Replace",
    pattern: { String: " " }, content: "▁" }), decoder: spm }),
  // The other steps.
  "whitespace": file(plainBPE(), { added_tokens: llamaAdded, normalizer: { type: "Lowercase" }, pre_tokenizer: { type: "Whitespace" },
    decoder: { type: "Fuse" } }),
  "whitespace split": file(plainBPE({ fuse_unk: true }), { added_tokens: llamaAdded, normalizer: { type: "NFD" },
    pre_tokenizer: pre({ type: "WhitespaceSplit" }, { type: "Punctuation", behavior: "MergedWithPrevious" }), decoder: { type: "Fuse" } }),
  "bert": file(plainBPE(), { added_tokens: llamaAdded, normalizer: norms({ type: "NFKC" }, { type: "Lowercase" }),
    pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "Fuse" } }),
  "delimiter": file(plainBPE(), { added_tokens: llamaAdded, normalizer: { type: "Strip", strip_left: true, strip_right: false },
    pre_tokenizer: pre({ type: "CharDelimiterSplit", delimiter: "e" }, { type: "Digits", individual_digits: true }),
    decoder: { type: "Fuse" } }),
};

// The library's encode works in the background.
(async () => {
  const out = { texts, cases: {} };
  for (const [name, json] of Object.entries(cases)) {
    const size = Math.max(...(Array.isArray(json.model.vocab) ? [json.model.vocab.length - 1] : Object.values(json.model.vocab)));
    let next = size;
    json.added_tokens.forEach((a) => { if (a.id >= 500) a.id = ++next; });
    const tok = Tokenizer.fromString(JSON.stringify(json));
    const c = { file: json, ids: [], affixed: [], decoded: [] };
    for (const text of texts) {
      const ids = (await tok.encode(text, null, { addSpecialTokens: false })).getIds();
      c.ids.push(ids);
      c.decoded.push(await tok.decode(ids, false));
    }
    c.affixed = (await tok.encode("hello", null, { addSpecialTokens: true })).getIds();
    out.cases[name] = c;
  }
  console.log("{\"texts\":" + JSON.stringify(out.texts) + ",\n\"cases\":{");
  console.log(Object.entries(out.cases).map(([name, c]) => JSON.stringify(name) + ":{\"file\":" + JSON.stringify(c.file) +
    ",\n\"affixed\":" + JSON.stringify(c.affixed) + ",\n\"ids\":" + JSON.stringify(c.ids) + ",\n\"decoded\":" +
    JSON.stringify(c.decoded) + "}").join(",\n"));
  console.log("}}");
})();
