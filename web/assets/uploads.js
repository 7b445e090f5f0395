// uploads reads files that the user attaches or drops, and has the server read them while the user still writes.

import { ask } from './api.js';
import { bytes } from './format.js';
import { toolsOf } from './tools.js';
import { contentOf, messagesOf, path } from './tree.js';

// Limits of the page. The server has its own.
export const mostFile = 8 << 20;
export const mostFiles = 20;

// kinds are what files begin with that are no text in UTF-8.
const kinds = [
  [/^%PDF-/, 'a PDF'], [/^(\x89PNG|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|II\*\0|MM\0\*)/s, 'an image'],
  [/^PK\x03\x04/, 'an archive or an office document'], [/^(\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf)/, 'compressed'],
  [/^(\xff\xfe|\xfe\xff)/, 'text in UTF-16'], [/^(ID3|OggS|fLaC|RIFF....WAVE|....ftyp)/s, 'sound or video'],
];

// readText returns the text of a file. Its error says what is wrong with the file, after the file's name.
export async function readText(file) {
  if (file.size > mostFile) throw new Error(`has ${bytes(file.size)}, the limit is ${bytes(mostFile)}`);
  let data;
  try {
    data = await file.arrayBuffer();
  } catch {
    throw new Error('cannot be read; a folder has to be attached file by file');
  }
  const start = String.fromCharCode(...new Uint8Array(data, 0, Math.min(16, data.byteLength)));
  const kind = kinds.find(([begins]) => begins.test(start));
  if (kind) throw new Error(`is ${kind[1]}: the models read text in UTF-8 only`);
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    throw new Error('is not text in UTF-8');
  }
  if (text.includes('\0')) throw new Error('is not text: it has a zero byte');
  if (!text) throw new Error('is empty');
  return text;
}

// Pieces in which the server reads files: of so many characters, but no more than so many pieces.
const piece = 6000;
const mostPieces = 16;

// readAhead has the server read a conversation with files that will be at the start of its next message. Each request
// is cached, so that the next one, and the message, continue from there. tell is called with the part that is read.
export async function readAhead(c, files, signal, tell) {
  const before = messagesOf(c, path(c));
  const tools = toolsOf(c.settings.tools);
  const content = contentOf({ content: '', files });
  const pieces = Math.min(mostPieces, Math.ceil(content.length / piece));
  for (let i = 1; i <= pieces; i++) {
    const part = content.slice(0, Math.ceil(content.length * i / pieces));
    await ask('/v1/chat/completions', {
      model: c.model, max_tokens: 1, messages: [...before, { role: 'user', content: part }], ...(tools.length && { tools }),
    }, signal);
    tell(i / pieces);
  }
}
