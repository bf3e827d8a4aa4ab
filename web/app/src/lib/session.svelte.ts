// Who asks: an API key or the token of a login. Kept for the browser's tab, or in the browser when the user says so.
const kKey = 'quern.session';

export interface Session {
  token: string;
  refreshToken: string;
  user: string;
}

const kNobody: Session = { token: '', refreshToken: '', user: '' };

function read(): Session {
  for (const store of [sessionStorage, localStorage]) {
    try {
      const value = JSON.parse(store.getItem(kKey) ?? 'null');
      if (value && typeof value.token === 'string') {
        return { token: value.token, refreshToken: String(value.refreshToken ?? ''), user: String(value.user ?? '') };
      }
    } catch {
      // As if there were none.
    }
  }
  return { ...kNobody };
}

export const session = $state<Session & { wanted: boolean }>({ ...read(), wanted: false });

export function enter(next: Session, keep: boolean): void {
  leave();
  Object.assign(session, next, { wanted: false });
  try {
    (keep ? localStorage : sessionStorage).setItem(kKey, JSON.stringify(next));
  } catch {
    // The session lasts until the page is closed.
  }
}

export function leave(): void {
  Object.assign(session, kNobody);
  for (const store of [sessionStorage, localStorage]) {
    try {
      store.removeItem(kKey);
    } catch {
      // Nothing was kept.
    }
  }
}
