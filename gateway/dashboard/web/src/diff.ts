// The difference of two short texts by words: the longest common subsequence of their words, blanks
// and signs.

export interface Piece {
  kind: "same" | "gone" | "new";
  text: string;
}

// The gateway's excerpts have at most 512 bytes; more than this is compared as a whole.
const WORDS_MAX = 600;

export function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

function lengths(a: string[], b: string[]): Uint16Array[] {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; --i) {
    for (let j = b.length - 1; j >= 0; --j) {
      table[i]![j] = a[i] === b[j] ? table[i + 1]![j + 1]! + 1
        : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
    }
  }
  return table;
}

function push(pieces: Piece[], kind: Piece["kind"], text: string): void {
  const last = pieces[pieces.length - 1];
  if (last && last.kind === kind) last.text += text;
  else if (text !== "") pieces.push({ kind, text });
}

export function diffWords(before: string, after: string): Piece[] {
  const a = wordsOf(before);
  const b = wordsOf(after);
  const pieces: Piece[] = [];
  if (a.length > WORDS_MAX || b.length > WORDS_MAX) {
    push(pieces, "gone", before);
    push(pieces, "new", after);
    return pieces;
  }
  const table = lengths(a, b);
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push(pieces, "same", a[i]!);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && table[i + 1]![j]! >= table[i]![j + 1]!)) {
      push(pieces, "gone", a[i]!);
      i += 1;
    } else {
      push(pieces, "new", b[j]!);
      j += 1;
    }
  }
  return pieces;
}
