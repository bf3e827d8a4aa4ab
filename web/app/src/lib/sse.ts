// Server-sent events of one answer: the data of each, until [DONE] or the end.
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let waiting = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      waiting += done ? '\n\n' : value;
      const blocks = waiting.split(/\r?\n\r?\n/);
      waiting = blocks.pop() ?? '';
      for (const block of blocks) {
        const data = block.split(/\r?\n/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
        if (data.length === 0) continue;
        const text = data.join('\n');
        if (text === '[DONE]') return;
        yield text;
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
