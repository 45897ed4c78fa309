/**
 * What is typed to find sessions: words, all of which must fit. The grammar is that of `millstream top`'s
 * filter.
 *
 * `worker:`, `stream:`, `role:` and `protocol:` before a word ask for that field alone; any other colon
 * belongs to the word, as in an address with its port. Whether a word fits is said elsewhere.
 */

const FIELDS = ['worker', 'stream', 'role', 'protocol'] as const;

export interface Word {
  field: (typeof FIELDS)[number] | 'any';
  /** In lower case. */
  text: string;
}

/** Most characters that are taken, so that the words of a search are few. */
export const TEXT_MAX = 100;

/** Every text has a meaning; an empty one asks for nothing. */
export function wordsOf(text: string): Word[] {
  return text
    .toLowerCase()
    .slice(0, TEXT_MAX)
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(parse);
}

function parse(word: string): Word {
  const field = FIELDS.find((name) => word.startsWith(`${name}:`));
  return field === undefined ? { field: 'any', text: word } : { field, text: word.slice(field.length + 1) };
}

/** Texts of the words that may fit in any place, each once. */
export function anywhere(words: readonly Word[]): string[] {
  return [...new Set(words.filter(({ field }) => field === 'any').map(({ text }) => text))];
}
