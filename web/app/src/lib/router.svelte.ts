// Views have addresses behind the #: #/catalog/smollm2?kind=chat.
export const kViews = ['chat', 'try', 'catalog', 'launch', 'models', 'charts', 'cluster', 'jobs', 'people', 'connect', 'login', 'setup'] as const;
export type View = (typeof kViews)[number];

interface Place {
  view: View;
  name: string;  // what follows the view
  query: URLSearchParams;
}

function read(): Place {
  // The one-time link of the first start is a path of the server: /setup?token=…
  if (/\/setup\/?$/.test(location.pathname) && !location.hash) {
    return { view: 'setup', name: '', query: new URLSearchParams(location.search) };
  }
  // Where an OpenID provider's answer leads to.
  if (location.hash.startsWith('#oidc_code=')) return { view: 'login', name: '', query: new URLSearchParams(location.hash.slice(1)) };
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [view, ...rest] = path.split('/');
  const known = (kViews as readonly string[]).includes(view);
  let name = rest.join('/');
  try {
    name = decodeURIComponent(name);
  } catch {
    // As it stands.
  }
  return { view: known ? (view as View) : 'chat', name, query: new URLSearchParams(query ?? '') };
}

let current = $state.raw<Place>(read());
export function here(): Place {
  return current;
}

window.addEventListener('hashchange', () => (current = read()));

export function go(view: View, name = '', query: Record<string, string> = {}): void {
  location.hash = href(view, name, query);
}

export function href(view: View, name = '', query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ''}${search ? `?${search}` : ''}`;
}
