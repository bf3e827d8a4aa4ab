// GET /v1/catalog and GET /v1/catalog/{name}, as docs/openapi.json has them.
import { json, part } from './api';

export interface Fit {
  runs: boolean;
  engine: string | null;
  model: string | null;
  note: string | null;
  reason: string | null;
}
export interface Size {
  name: string;
  parameters_b: number | null;
  active_b?: number;
}
export interface CatalogModel {
  name: string;
  aliases: string[];
  kind: string;
  type: string;
  family: string;
  license: string | null;
  description: string;
  context: number | null;
  dimensions: number | null;
  languages: string[];
  abilities: string[];
  sizes: Size[];
  formats: string[];
  custom: boolean;
  fits: Fit;
  stored: boolean;
}
export interface Variant {
  name: string;  // "smollm2:135m-q4_1"
  format: string;
  quantization: string | null;
  size: Size | string | null;
  bytes: number | null;
  license: string | null;
  sources: string[];
  stored: boolean;
}
export interface EngineCheck {
  engine: string;
  runs: boolean;
  reason: string | null;
  variants: { tag: string; format: string; runs: boolean; reason: string | null; note: string | null }[];
}
export interface CatalogDetail extends CatalogModel {
  variants: Variant[];
  engines: EngineCheck[];
}
export interface Estimate {
  basis: string;
  weights: number;
  kv_cache: number;
  activations: number;
  overhead: number;
  total: number;
  available: number;
  max_model_len: number;
}

export const kKinds = ['chat', 'code', 'completion', 'vision', 'embedding', 'rerank', 'transcription', 'speech', 'image'] as const;
export const kFormats = ['gguf', 'safetensors', 'mlx', 'pytorch', 'onnx', 'ctranslate2', 'diffusers'];

export async function searchCatalog(query: Record<string, string>): Promise<CatalogModel[]> {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value.trim() !== ''));
  return (await json<{ data: CatalogModel[] }>(`v1/catalog?${search}`)).data;
}

// With the marks for what a model would be served with: max_model_len, max_num_seqs, kv_cache_dtype.
export function showCatalog(name: string, options: Record<string, string | number> = {}): Promise<CatalogDetail> {
  const search = new URLSearchParams(Object.entries(options).map(([key, value]) => [key, String(value)])).toString();
  return json<CatalogDetail>(`v1/catalog/${part(name)}${search ? `?${search}` : ''}`);
}

export function sizeName(variant: Variant): string {
  return typeof variant.size === 'string' ? variant.size : (variant.size?.name ?? '');
}

export function tagOf(variant: Variant): string {
  return variant.name.slice(variant.name.indexOf(':') + 1);
}
