// What screen readers are told: one line at a time, in a live region of App.svelte.
export const spoken = $state({ text: '' });

export function say(text: string): void {
  // A text that is said twice must change in between to be read twice.
  spoken.text = text === spoken.text ? `${text}\u00a0` : text;
}

// Tells a growing text by whole sentences, and not faster than it can be listened to.
export class Teller {
  #told = 0;
  #last = 0;

  grow(text: string): void {
    const now = Date.now();
    if (now - this.#last < 2000) return;
    const end = Math.max(...['. ', '! ', '? ', '\n', '。', '！', '？'].map((mark) => text.lastIndexOf(mark)));
    if (end < this.#told) return;
    this.#last = now;
    say(text.slice(this.#told, end + 1).trim());
    this.#told = end + 1;
  }

  end(text: string): void {
    const rest = text.slice(this.#told).trim();
    if (rest) say(rest);
  }
}
