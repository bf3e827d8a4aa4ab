// One answer of a model: what is sent for a conversation, and what comes back put into a message.
import { Failure, request } from '../lib/api';
import { events } from '../lib/sse';
import type { Conversation, Message, Sampler } from './store.svelte';

interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
}
interface Chunk {
  error?: { message?: string } | string;
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } | null } | null;
}

function fence(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  return '`'.repeat(longest + 1);
}

function textOf(message: Message): string {
  const files = message.files.map((file) => `${file.name}:\n${fence(file.text)}\n${file.text}\n${fence(file.text)}`);
  return [message.content, ...files].filter((part) => part !== '').join('\n\n');
}

function userTurn(message: Message): unknown {
  const text = textOf(message);
  if (message.pictures.length === 0) return { role: 'user', content: text };
  const pictures = message.pictures.map((picture) => ({ type: 'image_url', image_url: { url: `data:${picture.type};base64,${picture.data}` } }));
  return { role: 'user', content: [...pictures, ...(text ? [{ type: 'text', text }] : [])] };
}

function assistantTurns(message: Message): unknown[] {
  const calls = message.calls.filter((call) => call.result !== '');
  if (message.content === '' && calls.length === 0) return [];
  const turn: Record<string, unknown> = { role: 'assistant', content: message.content };
  if (message.reasoning) turn.reasoning_content = message.reasoning;
  if (calls.length === 0) return [turn];
  turn.tool_calls = calls.map((call) => ({ id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments || '{}' } }));
  return [turn, ...calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: call.result }))];
}

export function turnsOf(system: string, messages: Message[]): unknown[] {
  const turns = messages.flatMap((message) => (message.role === 'user' ? [userTurn(message)] : assistantTurns(message)));
  return system.trim() ? [{ role: 'system', content: system }, ...turns] : turns;
}

// Fields that are set; an unreadable list of tools is thrown with its fault.
export function fieldsOf(sampler: Sampler): Record<string, unknown> {
  const { stop, thinking, tools, ...numbers } = sampler;
  const fields: Record<string, unknown> = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null));
  const stops = stop.split('\n').filter((line) => line !== '');
  if (stops.length > 0) fields.stop = stops;
  if (thinking) fields.chat_template_kwargs = { enable_thinking: thinking === 'on' };
  if (tools.trim()) fields.tools = JSON.parse(tools);
  return fields;
}

// Pieces come faster than a page can be laid out; they are joined for a moment.
class Pieces {
  #content = '';
  #reasoning = '';
  #timer = 0;

  constructor(
    private readonly message: Message,
    private readonly grown: () => void,
  ) {}

  take(delta: Delta): void {
    this.#content += delta.content ?? '';
    this.#reasoning += delta.reasoning_content ?? delta.reasoning ?? '';
    for (const part of delta.tool_calls ?? []) this.#call(part);
    this.#timer ||= window.setTimeout(() => this.flush(), 40);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.message.content += this.#content;
    this.message.reasoning += this.#reasoning;
    this.#content = this.#reasoning = '';
    this.grown();
  }

  #call(part: NonNullable<Delta['tool_calls']>[number]): void {
    const index = part.index ?? this.message.calls.length;
    if (!(index >= 0 && index < 64)) return;
    while (this.message.calls.length <= index) this.message.calls.push({ id: '', name: '', arguments: '', result: '' });
    const call = this.message.calls[index];
    call.id ||= part.id ?? '';
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
}

export async function answer(chat: Conversation, message: Message, sampler: Sampler, signal: AbortSignal, grown: () => void): Promise<void> {
  const before = chat.messages.slice(0, chat.messages.indexOf(message));
  const body = { model: message.model, messages: turnsOf(chat.system, before), stream: true, stream_options: { include_usage: true }, ...fieldsOf(sampler) };
  const begin = performance.now();
  let first = 0;
  let usage: Chunk['usage'] = null;
  const pieces = new Pieces(message, grown);
  try {
    const reply = await request('v1/chat/completions', { body, signal });
    if (!reply.body) throw new Failure(0, '');
    for await (const data of events(reply.body)) {
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error) throw new Failure(500, typeof chunk.error === 'string' ? chunk.error : (chunk.error.message ?? ''));
      usage = chunk.usage ?? usage;
      const choice = chunk.choices?.[0];
      if (choice?.finish_reason) message.finish = choice.finish_reason;
      if (!choice?.delta) continue;
      const { content, reasoning, reasoning_content, tool_calls } = choice.delta;
      if (!first && (content || reasoning || reasoning_content || tool_calls)) first = performance.now();
      pieces.take(choice.delta);
    }
  } catch (error) {
    if (signal.aborted) message.finish = 'stopped';
    else throw error;
  } finally {
    pieces.flush();
    const end = performance.now();
    const tokens = usage?.completion_tokens ?? 0;
    if (first && tokens > 0) {
      message.stats = {
        firstToken: (first - begin) / 1000,
        perSecond: tokens > 1 ? ((tokens - 1) * 1000) / Math.max(1, end - first) : 0,
        promptTokens: usage?.prompt_tokens ?? 0,
        cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
        tokens,
      };
    }
  }
}
