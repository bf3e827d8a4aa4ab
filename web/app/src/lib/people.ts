// /token, /v1/auth, /v1/admin and /v1/audit, as docs/openapi.json has them.
import { json, part } from './api';
import { served } from './models.svelte';
import { enter, session } from './session.svelte';

export interface User {
  id: string;
  username: string;
  role: string;
  disabled: boolean;
  must_change_password: boolean;
  oidc: boolean;
  created: number;
  last_login: number | null;
}
export interface Key {
  id: string;
  name: string;
  owner: string | null;
  hint: string;
  scopes: string[];
  models: string[];
  expires: number | null;
  banned: boolean;
  created: number;
  last_used: number | null;
  today?: { requests: number; tokens: number };
  key?: string;  // once, when it was made
}
export interface AuditLine {
  id: number;
  time: number;
  who: string;
  action: string;
  target: string;
  address: string;
  outcome: string;
}
export interface Me {
  auth: boolean;
  kind: string;
  name?: string;
  role?: string;
  scopes: string[];
  must_change_password?: boolean;
}
export interface Tokens {
  access_token: string;
  refresh_token?: string;
  must_change_password?: boolean;
  user?: User;
}
export interface SetupStatus {
  auth: boolean;
  users: boolean;
  needs_setup: boolean;
  oidc: boolean;
}

export const kRoles = ['admin', 'user', 'viewer'];
export const kScopes = ['models:list', 'models:read', 'models:write', 'models:register', 'keys:create', 'keys:manage', 'users:manage', 'cache:read', 'cache:write', 'logs:list', 'jobs:read', 'jobs:write', 'nodes:join', 'monitor:view', 'admin'];

export function take(tokens: Tokens, name: string, keep: boolean): void {
  enter({ token: tokens.access_token, refreshToken: tokens.refresh_token ?? '', user: tokens.user?.username ?? name }, keep);
  void served.refresh();
}

export async function signIn(body: Record<string, string>, keep: boolean): Promise<Tokens> {
  const tokens = await json<Tokens>('token', { body });
  take(tokens, body.username ?? '', keep);
  return tokens;
}

// A key is tried before it is kept.
export async function useKey(key: string, keep: boolean): Promise<void> {
  const before = { token: session.token, refreshToken: session.refreshToken, user: session.user };
  enter({ token: key, refreshToken: '', user: '' }, keep);
  try {
    await json('v1/models');
  } catch (error) {
    enter(before, keep);
    throw error;
  }
  void served.refresh();
}

export const me = () => json<Me>('v1/auth/me');
export const setupStatus = () => json<SetupStatus>('v1/admin/setup/status');
export const listUsers = async () => (await json<{ data: User[] }>('v1/admin/users')).data;
export const listKeys = async () => (await json<{ data: Key[] }>('v1/admin/keys')).data;
export const searchAudit = (query: Record<string, string>) =>
  json<{ data: AuditLine[]; total: number; next_before: number | null }>(`v1/audit/search?${new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''))}`);
export const userPath = (user: User) => `v1/admin/users/${part(user.id)}`;
export const keyPath = (key: Key) => `v1/admin/keys/${part(key.id)}`;
