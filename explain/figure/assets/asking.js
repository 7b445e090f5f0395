// asking gets explanations from the server, one at a time, and keeps the last few: what was shown is there at once.

import { ask } from './api.js';

const most = 8; // that are kept

// asker makes {want, ahead, stop}. shown is called with an explanation that is to be shown, working with what is being
// computed, or nothing.
export function asker(shown, working) {
  const kept = new Map(); // by path: explanations
  let now = null; // {path, position, abort, again, done}: what is asked for
  let beside = null; // what is asked for ahead, likewise

  function keep(path, got) {
    kept.delete(path);
    kept.set(path, got);
    if (kept.size > most) kept.delete(kept.keys().next().value);
  }

  async function work(mine) {
    try {
      do {
        mine.again = false;
        const got = await ask(mine.path, undefined, mine.abort.signal);
        keep(mine.path, got);
        if (now === mine) shown(got);
      } while (mine.again && now === mine);
    } catch (error) {
      if (error.name !== 'AbortError' && now === mine) throw error;
    } finally {
      if (now === mine) {
        now = null;
        working('');
      }
    }
  }

  return {
    // want shows what a path explains at a position of the text. What is on its way is not asked for twice, but once
    // more behind it where the text has grown.
    want(path, name, position) {
      beside?.abort.abort();
      const got = kept.get(path);
      if (got && got.position === position) {
        now?.abort.abort();
        now = null;
        keep(path, got);
        working('');
        shown(got);
        return Promise.resolve();
      }
      if (now?.path === path) {
        now.again ||= now.position !== position;
        now.position = position;
        return now.done;
      }
      now?.abort.abort();
      const mine = { path, position, abort: new AbortController(), again: false };
      now = mine;
      working(name);
      mine.done = work(mine);
      return mine.done;
    },
    // ahead asks for explanations before anybody wants them, where nothing else is asked for, and tells whether all are
    // there.
    async ahead(paths, position) {
      if (now || beside) return false;
      const mine = { abort: new AbortController() };
      beside = mine;
      try {
        for (const path of paths) {
          if (kept.get(path)?.position === position || now) continue;
          keep(path, await ask(path, undefined, mine.abort.signal));
        }
      } catch { /* it is asked for again when it is wanted, and what is wrong is said then */ }
      beside = null;
      return paths.every((path) => kept.get(path)?.position === position);
    },
    // forget has everything asked for again, of what has changed without the text.
    forget() {
      kept.clear();
      if (now) now.again = true;
    },
    // stop gives up what is asked for, of a session that is no longer shown.
    stop() {
      now?.abort.abort();
      beside?.abort.abort();
      now = null;
      working('');
    },
  };
}
