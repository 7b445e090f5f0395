// data reads what a page holds: figures are packed, and unpacked when they are first seen. See pack.go.

// bytesOf are the bytes of a text in base64.
function bytesOf(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  return bytes;
}

// readHead reads what stands in the page about all figures.
export function readHead(element) {
  return JSON.parse(new TextDecoder().decode(bytesOf(element.textContent)));
}

// unpack reads a figure. Its long lists of numbers become views of one buffer.
async function unpack(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream('gzip'));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true), rest = 4 + length;
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)), (_, v) => {
    if (v === null || typeof v !== 'object' || typeof v.count !== 'number' || typeof v.at !== 'number') return v;
    return new (v.kind === 'f8' ? Float64Array : Float32Array)(buffer, rest + v.at, v.count);
  });
}

// floats is a list of numbers, with NaN where there is none.
export function floats(list) {
  return Array.isArray(list) ? Float64Array.from(list, (v) => (v === null ? NaN : v)) : list ?? new Float64Array(0);
}

// reader reads figures of elements, and keeps the last few, so that what was seen is there at once.
export function reader(elements) {
  const most = 24, kept = new Map(); // by index: a promise
  return (i) => {
    const found = kept.get(i) ?? unpack(elements[i].textContent);
    kept.delete(i);
    kept.set(i, found);
    if (kept.size > most) kept.delete(kept.keys().next().value);
    return found;
  };
}
