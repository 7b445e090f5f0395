// Measures how long llama.cpp (the CPU build in the npm package node-llama-cpp) takes to continue a text, as the peer
// of "hippo bench resume":
//
//     node resume.mjs [--threads 1] cold|restored DIR TOKENS FILE...
//
// It prints JSON lines with the fields by which they are joined with hippo's rows. first_ms is the wall-clock time to
// the next token after 16 more tokens. cold reads the text before them, and saves it in DIR (saveStateToFile). warm has
// the text in memory. edited has it in memory, followed by 16 other tokens (adaptStateToTokens). restored loads it from
// DIR, where another process saved it (loadStateFromFile). All other settings are the package's defaults, including
// checkpoints, except for the sizes of the context and the batch.
import fs from "node:fs";
import path from "node:path";
import {parseArgs} from "node:util";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const {values: flag, positionals: [phase, folder, size, ...files]} = parseArgs({
    allowPositionals: true, options: {threads: {type: "string", default: "1"}}
});
const threads = Number(flag.threads), length = Number(size), more = 16, turns = 5;
if (!["cold", "restored"].includes(phase) || !(length >= 1) || files.length === 0) {
    console.error("usage: node resume.mjs [--threads N] cold|restored DIR TOKENS FILE...");
    process.exit(2);
}
const precisions = {f32: "float32", f16: "bf16", bf16: "bf16", q8_0: "int8", q4_0: "int4"}; // hippo's names
const models = {mamba: "Mamba-130M", mamba2: "Mamba2-130M", gpt2: "GPT"};
const rounded = (x) => Number(x.toPrecision(4));
const median = (x) => x.slice().sort((a, b) => a - b)[x.length >> 1];

/** Random numbers that are the same in every process. */
const randoms = (seed) => () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
};
const timed = async (f) => {
    const start = performance.now();
    await f();
    return performance.now() - start;
};

const llama = await getLlama({
    gpu: false, build: "never", maxThreads: threads,
    logLevel: LlamaLogLevel.error, logger: (_, message) => console.error(message.trimEnd())
});
for (const file of files) {
    const model = await llama.loadModel({modelPath: path.resolve(file)});
    const {general: {architecture}, tokenizer} = model.fileInfo.metadata;
    const base = path.basename(file, ".gguf"), how = base.split("-").at(-1).toLowerCase();
    const saved = path.join(folder, `${base}-${length}.llama`);
    const context = await model.createContext({
        sequences: 1, contextSize: length + 2 * more, batchSize: 512, threads, failedCreationRemedy: false
    });
    const sequence = context.getSequence();
    const random = randoms(7), vocabulary = tokenizer.ggml.tokens.length;
    const some = (n) => Array.from({length: n}, () => Math.floor(random() * vocabulary));
    /** Reads tokens, up to the next one. */
    const reads = async (tokens) => {
        const [next] = (await sequence.controlledEvaluate([
            ...tokens.slice(0, -1), [tokens.at(-1), {generateNext: {token: true, options: {temperature: 0}}}]
        ])).slice(-1);
        if (next?.next?.token == null)
            throw new Error("found no next token");
    };
    /** Goes back or forth to a text and reads more tokens. */
    const turn = async (text, tokens) => {
        await sequence.adaptStateToTokens(text);
        const there = sequence.nextTokenIndex; // length of the part that could be kept
        await reads([...text.slice(there), ...tokens]);
    };
    const row = (mode, ms, fields) => console.log(JSON.stringify({
        peer: "llama.cpp", release: llama.llamaCppRelease.release, bench: "resume", model: models[architecture] ?? architecture,
        precision: precisions[how] ?? how, mode, context: length, n: more, first_ms: rounded(ms), ...fields, how, threads
    }));

    const text = some(length);
    if (phase === "cold") {
        const read = await timed(() => sequence.evaluateWithoutGeneratingNewTokens(text));
        const save = await timed(() => sequence.saveStateToFile(saved));
        const first = some(more);
        row("cold", read + await timed(() => reads(first)), {save_ms: rounded(save), file_mb: rounded(fs.statSync(saved).size / 1e6)});

        const warm = [], edited = [];
        for (let i = 0; i < turns; i++) {
            await sequence.clearHistory(); // a state cannot be forked
            await sequence.loadStateFromFile(saved, {acceptRisk: true});
            warm.push(await timed(() => reads(some(more))));
        }
        row("warm", median(warm));
        for (let i = 0; i < turns; i++) {
            const ms = await timed(() => turn(text, some(more)));
            edited.push(ms);
            if (ms > 2000)
                break; // once is enough
        }
        row("edited", median(edited));
    } else {
        const load = await timed(() => sequence.loadStateFromFile(saved, {acceptRisk: true}));
        row("restored", load + await timed(() => reads(some(more))), {load_ms: rounded(load)});
    }
    await context.dispose();
    await model.dispose();
}
await llama.dispose();
