// Markdown to a small tree that Markdown.svelte makes elements of. No text of markup is ever made, so there is none to
// clean: HTML in an answer stays text, links go to http, https and mailto alone, pictures become links.
import { Marked, type Token, type Tokens, type TokenizerAndRendererExtension } from 'marked';

export type Node =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'break' | 'rule' }
  | { kind: 'block'; language: string; text: string }
  | { kind: 'math'; text: string; display: boolean }
  | { kind: 'strong' | 'em' | 'del' | 'paragraph' | 'quote' | 'item'; kids: Node[] }
  | { kind: 'heading'; level: number; kids: Node[] }
  | { kind: 'list'; ordered: boolean; start: number; kids: Node[] }
  | { kind: 'box'; checked: boolean }
  | { kind: 'link'; href: string; kids: Node[] }
  | { kind: 'table'; align: ('left' | 'center' | 'right' | null)[]; head: Node[][]; rows: Node[][][] };

const kTextMax = 200_000;  // characters; a longer answer is shown as it is
const kNodesMax = 30_000;

// A formula: what stands between the marks, nothing of it read as Markdown.
function formula(name: string, level: 'block' | 'inline', rule: RegExp, mark: RegExp, display: boolean): TokenizerAndRendererExtension {
  return {
    name,
    level,
    start: (source) => {
      const place = source.search(mark);
      return place < 0 ? undefined : place;
    },
    tokenizer(source) {
      const match = rule.exec(source);
      return match ? { type: 'math', raw: match[0], text: match[1].trim(), display } : undefined;
    },
  };
}

const marked = new Marked({ gfm: true });
marked.use({
  extensions: [
    formula('dollars', 'block', /^ {0,3}\$\$([^$]+)\$\$[ \t]*(?:\n|$)/, /\$\$/, true),
    formula('brackets', 'block', /^ {0,3}\\\[((?:[^\\]|\\(?!\]))+)\\\][ \t]*(?:\n|$)/, /\\\[/, true),
    formula('inlineDollars', 'inline', /^\$\$([^$]+)\$\$/, /\$\$/, true),
    formula('dollar', 'inline', /^\$((?![\s$])[^$\n]*[^$\s\\])\$(?!\d)/, /\$/, false),
    formula('parentheses', 'inline', /^\\\(((?:[^\\\n]|\\(?!\)))+)\\\)/, /\\\(/, false),
    formula('inlineBrackets', 'inline', /^\\\[((?:[^\\]|\\(?!\]))+)\\\]/, /\\\[/, true),
  ],
});

const kEntities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', hellip: '…', mdash: '—', ndash: '–' };

function unescape(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]{2,6}));/g, (whole, decimal, hex, name) => {
    if (name) return kEntities[name] ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : whole;
  });
}

// Null: not a place to send a reader to.
export function safeHref(href: string): string | null {
  try {
    const url = new URL(unescape(href));
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

class Reader {
  #nodes = 0;

  all(tokens: Token[] | undefined): Node[] {
    return (tokens ?? []).flatMap((token) => this.#one(token));
  }

  #link(href: string, kids: Node[], raw: string): Node[] {
    const safe = safeHref(href);
    return safe === null ? [{ kind: 'text', text: raw }] : [{ kind: 'link', href: safe, kids }];
  }

  #table(token: Tokens.Table): Node {
    const cells = (row: Tokens.TableCell[]) => row.map((cell) => this.all(cell.tokens));
    return { kind: 'table', align: token.align, head: cells(token.header), rows: token.rows.map(cells) };
  }

  #one(token: Token): Node[] {
    if (++this.#nodes > kNodesMax) throw new Error('too much');
    switch (token.type) {
      case 'space':
      case 'def':
        return [];
      case 'heading':
        return [{ kind: 'heading', level: token.depth, kids: this.all(token.tokens) }];
      case 'paragraph':
        return [{ kind: 'paragraph', kids: this.all(token.tokens) }];
      case 'blockquote':
        return [{ kind: 'quote', kids: this.all(token.tokens) }];
      case 'list':
        return [{ kind: 'list', ordered: token.ordered, start: Number(token.start) || 1, kids: this.all(token.items) }];
      case 'list_item':
        return [{ kind: 'item', kids: this.all(token.tokens) }];
      case 'checkbox':
        return [{ kind: 'box', checked: token.checked }];
      case 'code':
        return [{ kind: 'block', language: (token.lang ?? '').trim().split(/\s/)[0], text: token.text }];
      case 'table':
        return [this.#table(token as Tokens.Table)];
      case 'hr':
        return [{ kind: 'rule' }];
      case 'br':
        return [{ kind: 'break' }];
      case 'strong':
      case 'em':
      case 'del':
        return [{ kind: token.type, kids: this.all(token.tokens) }];
      case 'codespan':
        return [{ kind: 'code', text: token.text }];
      case 'math':
        return [{ kind: 'math', text: token.text, display: token.display }];
      case 'link':
        return this.#link(token.href, this.all(token.tokens), token.raw);
      case 'image':
        return this.#link(token.href, [{ kind: 'text', text: token.text || token.href }], token.raw);
      case 'html':
        return [{ kind: 'text', text: token.raw }];
      case 'text':
        return token.tokens ? this.all(token.tokens) : [{ kind: 'text', text: unescape(token.text) }];
      default:
        return [{ kind: 'text', text: token.type === 'escape' ? token.text : token.raw }];
    }
  }
}

export function parseMarkdown(text: string): Node[] {
  try {
    if (text.length <= kTextMax) return new Reader().all(marked.lexer(text));
  } catch {
    // Nested too deep, or too much of it: nobody can read that as Markdown.
  }
  return [{ kind: 'block', language: '', text }];
}
