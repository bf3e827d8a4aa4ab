// Conversations, kept in this browser.
export interface Picture {
  name: string;
  type: string;
  data: string;  // base64
}
export interface TextFile {
  name: string;
  text: string;
}
export interface Call {
  id: string;
  name: string;
  arguments: string;
  result: string;  // what the reader of the page says the tool answered
}
export interface Stats {
  firstToken: number;  // seconds
  perSecond: number;
  promptTokens: number;
  cachedTokens: number;
  tokens: number;
}
export interface Message {
  id: string;
  role: 'user' | 'assistant';
  content: string;
  reasoning: string;
  pictures: Picture[];
  files: TextFile[];
  calls: Call[];
  error: string;
  finish: string;  // finish_reason, or "stopped" by the reader
  model: string;
  stats: Stats | null;
}
export interface Conversation {
  id: string;
  title: string;
  system: string;
  messages: Message[];
  changed: number;
}
export interface Sampler {
  temperature: number | null;
  top_p: number | null;
  top_k: number | null;
  min_p: number | null;
  repetition_penalty: number | null;
  presence_penalty: number | null;
  frequency_penalty: number | null;
  max_tokens: number | null;
  seed: number | null;
  stop: string;        // one a line
  thinking: '' | 'on' | 'off';
  tools: string;       // JSON as the API takes it
}

const kChats = 'quern.chats';
const kSampler = 'quern.sampler';
const kChatsMax = 200;
export const kNoSampler: Sampler = {
  temperature: null, top_p: null, top_k: null, min_p: null, repetition_penalty: null, presence_penalty: null,
  frequency_penalty: null, max_tokens: null, seed: null, stop: '', thinking: '', tools: '',
};

export function newId(): string {
  return crypto.getRandomValues(new Uint32Array(3)).reduce((text, part) => text + part.toString(36), '');
}

export function newMessage(role: 'user' | 'assistant', content: string): Message {
  return { id: newId(), role, content, reasoning: '', pictures: [], files: [], calls: [], error: '', finish: '', model: '', stats: null };
}

function emptyConversation(): Conversation {
  return { id: newId(), title: '', system: '', messages: [], changed: Date.now() };
}

// What an older page kept lacks fields; what something else wrote is no conversation.
function readConversation(value: unknown): Conversation[] {
  const chat = value as Partial<Conversation> | null;
  if (typeof chat?.id !== 'string' || !Array.isArray(chat.messages)) return [];
  const messages = chat.messages
    .filter((message) => (message?.role === 'user' || message?.role === 'assistant') && typeof message.content === 'string')
    .map((message) => ({ ...newMessage(message.role, message.content), ...message }));
  return [{ id: chat.id, title: String(chat.title ?? ''), system: String(chat.system ?? ''), messages, changed: Number(chat.changed) || 0 }];
}

function read<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null') ?? otherwise;
  } catch {
    return otherwise;
  }
}

class Chats {
  all = $state<Conversation[]>([]);
  currentId = $state('');
  full = $state(false);  // the browser keeps no more
  #timer = 0;

  constructor() {
    const kept = read<unknown>(kChats, []);
    this.all = Array.isArray(kept) ? kept.flatMap(readConversation) : [];
    this.all.sort((a, b) => b.changed - a.changed);
    this.open(this.all[0]?.id ?? '');
    window.addEventListener('pagehide', () => this.saveNow());
  }

  get current(): Conversation {
    return this.all.find((chat) => chat.id === this.currentId) ?? this.all[0];
  }

  open(id: string): void {
    if (this.all.some((chat) => chat.id === id)) this.currentId = id;
    else this.start();
  }

  start(): void {
    const empty = this.all.find((chat) => chat.messages.length === 0);
    if (!empty) this.all.unshift(emptyConversation());
    this.currentId = (empty ?? this.all[0]).id;
  }

  remove(id: string): void {
    this.all = this.all.filter((chat) => chat.id !== id);
    if (id === this.currentId) this.open(this.all[0]?.id ?? '');
    this.saveNow();
  }

  removeAll(): void {
    this.all = [];
    this.start();
    this.saveNow();
  }

  save(): void {
    this.current.changed = Date.now();
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.saveNow(), 400);
  }

  saveNow(): void {
    clearTimeout(this.#timer);
    const chats = $state.snapshot(this.all).filter((chat) => chat.messages.length > 0);
    chats.sort((a, b) => b.changed - a.changed);
    chats.length = Math.min(chats.length, kChatsMax);
    // Where there is no room, pictures go first, then the oldest conversations.
    this.full = false;
    for (;;) {
      try {
        localStorage.setItem(kChats, JSON.stringify(chats));
        return;
      } catch {
        this.full = true;
        const withPictures = chats.findLast((chat) => chat.messages.some((message) => message.pictures.length > 0));
        if (withPictures) withPictures.messages.forEach((message) => (message.pictures = []));
        else if (chats.length === 0) return;
        else chats.pop();
      }
    }
  }
}

export const chats = new Chats();
export const sampler = $state<Sampler>({ ...kNoSampler, ...read<Partial<Sampler>>(kSampler, {}) });

export function saveSampler(): void {
  try {
    localStorage.setItem(kSampler, JSON.stringify(sampler));
  } catch {
    // It holds until the page is closed.
  }
}
