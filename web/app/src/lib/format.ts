import { settings } from './settings.svelte';

function locale(): string {
  return settings.language === 'zh' ? 'zh-CN' : 'en';
}

export function bytes(count: number | null | undefined): string {
  if (count == null || !Number.isFinite(count) || count < 0) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

export function number(value: number | null | undefined, digits = 0): string {
  if (value == null || !Number.isFinite(value)) return '–';
  return value.toLocaleString(locale(), { maximumFractionDigits: digits });
}

export function seconds(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return '–';
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

// A time as servers give them: seconds or milliseconds since 1970, or a text.
export function time(value: number | string | null | undefined): string {
  if (value == null || value === '' || value === 0) return '–';
  const date = new Date(typeof value === 'number' ? (value > 1e11 ? value : value * 1000) : value);
  if (Number.isNaN(date.getTime())) return String(value);
  return date.toLocaleString(locale(), { dateStyle: 'short', timeStyle: 'medium' });
}

export function short(text: string, length: number): string {
  const glyphs = [...text];
  return glyphs.length <= length ? text : `${glyphs.slice(0, length - 1).join('')}…`;
}
