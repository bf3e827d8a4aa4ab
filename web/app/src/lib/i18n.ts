import { en, type Key } from './texts.en';
import { zh } from './texts.zh';
import { settings } from './settings.svelte';

// {name} in a text stands for a value.
export function t(key: Key, values: Record<string, string> = {}): string {
  const text = settings.language === 'zh' ? zh[key] : en[key];
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// A word that comes from the server: a kind, a state. What has no translation is empty or stays as it is.
export function word(group: 'kind' | 'ability' | 'state' | 'task' | 'fact', name: string): string {
  const key = `${group}.${name}` as Key;
  if (Object.hasOwn(en, key)) return t(key);
  return group === 'state' || group === 'fact' ? '' : name;
}
