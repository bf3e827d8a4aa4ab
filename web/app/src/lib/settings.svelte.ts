// What the reader of the page chose: kept in this browser alone.
export type Language = 'en' | 'zh';
export type Theme = 'system' | 'light' | 'dark';

const kKey = 'quern.settings';

function stored(): Partial<Record<string, unknown>> {
  try {
    return JSON.parse(localStorage.getItem(kKey) ?? '{}') ?? {};
  } catch {
    return {};
  }
}

function firstLanguage(): Language {
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

const before = stored();
export const settings = $state({
  language: (before.language === 'zh' || before.language === 'en' ? before.language : firstLanguage()) as Language,
  theme: (before.theme === 'light' || before.theme === 'dark' ? before.theme : 'system') as Theme,
  model: typeof before.model === 'string' ? before.model : '',
});

export function keepSettings(): void {
  try {
    localStorage.setItem(kKey, JSON.stringify(settings));
  } catch {
    // A browser that keeps nothing still shows the page.
  }
}

export function showSettings(): void {
  const root = document.documentElement;
  root.lang = settings.language === 'zh' ? 'zh-CN' : 'en';
  if (settings.theme === 'system') root.removeAttribute('data-theme');
  else root.dataset.theme = settings.theme;
}
