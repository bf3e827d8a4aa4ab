// Models that are served: the list that every view picks from.
import { json } from './api';
import { Resource } from './resource.svelte';

export type Task = 'generate' | 'embed' | 'rerank' | 'classify' | 'other';

export interface Served {
  id: string;
  task?: string;
  max_model_len?: number | null;
  model_name?: string;
  model_type?: string;
  model_ability?: string[];
  model_engine?: string;
  model_format?: string;
  model_size_in_billions?: number | string | null;
  quantization?: string | null;
  context_length?: number | null;
  replica?: number;
  address?: string;
  state?: string;
  status?: string;
  parent?: string;
}

export const served = new Resource<Served[]>(async () => {
  const answer = await json<{ data?: Served[] }>('v1/models');
  return Array.isArray(answer?.data) ? answer.data.filter((model) => typeof model?.id === 'string') : [];
});

export function taskOf(model: Served): Task {
  const task = model.task ?? '';
  if (task === 'generate' || task === 'embed' || task === 'rerank' || task === 'classify') return task;
  const type = (model.model_type ?? 'LLM').toLowerCase();
  if (type === 'llm') return 'generate';
  if (type === 'embedding') return 'embed';
  if (type === 'rerank') return 'rerank';
  return 'other';
}

export function modelsFor(...tasks: Task[]): Served[] {
  return (served.data ?? []).filter((model) => tasks.includes(taskOf(model)));
}

export function can(model: Served | undefined, ability: string): boolean {
  return model?.model_ability?.includes(ability) ?? false;
}
