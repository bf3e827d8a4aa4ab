// Asks the server that this page came from. Addresses are relative, so that the page works below a prefix too.
import { enter, leave, session } from './session.svelte';

export class Failure extends Error {
  constructor(
    readonly status: number,  // 0: the server could not be reached
    message: string,
    readonly param = '',
  ) {
    super(message);
  }
  // The server is well, but does not have this route (an older one, or one without a platform).
  get unavailable(): boolean {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
  get wantsLogin(): boolean {
    return this.status === 401;
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
}

export function failureFrom(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure(0, String(error));
}

export async function failureOf(answer: Response): Promise<Failure> {
  let message = `${answer.status} ${answer.statusText}`.trim();
  let param = '';
  try {
    const body = await answer.json();
    message = text(body?.error?.message ?? body?.detail ?? body?.error ?? body?.message) || message;
    param = text(body?.error?.param);
  } catch {
    // Not from Quern: its status has to do.
  }
  return new Failure(answer.status, message, param);
}

// One refresh for all who wait for it.
let refreshing: Promise<boolean> | null = null;

async function refresh(): Promise<boolean> {
  const answer = await fetch('v1/auth/refresh', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ refresh_token: session.refreshToken }),
  });
  if (!answer.ok) return false;
  const body = await answer.json();
  if (typeof body.access_token !== 'string') return false;
  const keep = localStorage.getItem('quern.session') !== null;
  enter({ ...session, token: body.access_token, refreshToken: text(body.refresh_token) || session.refreshToken }, keep);
  return true;
}

export interface Ask {
  method?: string;
  body?: unknown;  // sent as JSON, or as it is when it is FormData
  signal?: AbortSignal;
}

async function send(path: string, ask: Ask): Promise<Response> {
  const headers: Record<string, string> = {};
  if (session.token) headers.Authorization = `Bearer ${session.token}`;
  let body: BodyInit | undefined;
  if (ask.body instanceof FormData) {
    body = ask.body;
  } else if (ask.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(ask.body);
  }
  try {
    return await fetch(path, { method: ask.method ?? (body === undefined ? 'GET' : 'POST'), headers, body, signal: ask.signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Failure(0, '');
  }
}

// An answer that is well; a failure is thrown.
export async function request(path: string, ask: Ask = {}): Promise<Response> {
  let answer = await send(path, ask);
  if (answer.status === 401 && session.refreshToken) {
    refreshing ??= refresh().catch(() => false).finally(() => (refreshing = null));
    if (await refreshing) answer = await send(path, ask);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) {
    leave();  // what is not good any more is not shown again: servers count it
    session.wanted = true;
  }
  throw await failureOf(answer);
}

export async function json<T>(path: string, ask: Ask = {}): Promise<T> {
  const answer = await request(path, ask);
  const body = await answer.text();
  return (body ? JSON.parse(body) : null) as T;
}

export function part(name: string): string {
  return encodeURIComponent(name);
}
