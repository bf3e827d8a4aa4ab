// GET /v1/jobs, as docs/openapi.json has it. A server that is older knows OpenAI's batches alone: no priority, no window,
// no pause.
import { Failure, json, part, request } from './api';

export interface Job {
  id: string;
  name: string;
  state: string;
  model: string | null;
  priority: number;
  window: string | null;
  created: number;
  started: number | null;
  ended: number | null;
  counts: { total: number; done: number; failed: number };
  output_file_id: string | null;
  error_file_id: string | null;
  message: string | null;
}
export interface Jobs {
  list: Job[];
  batches: boolean;  // that is all this server has
}
export interface JobStart {
  file: File;
  name: string;
  model: string;
  priority: number;
  window: string;
  endpoint: string;  // of every line; batches alone want it
}
interface Batch {
  id: string;
  endpoint: string;
  status: string;
  created_at: number;
  output_file_id: string | null;
  error_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

export const kEndpoints = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings'];
const kEnded = ['completed', 'failed', 'cancelled', 'expired'];

let batches = false;  // a route that is not there is not asked again

function jobOf(batch: Batch): Job {
  const { total, completed, failed } = batch.request_counts;
  return { ...batch, name: batch.endpoint, state: batch.status, model: null, priority: 0, window: null, created: batch.created_at, started: null, ended: null, counts: { total, done: completed, failed }, message: null };
}

export async function listJobs(): Promise<Jobs> {
  if (!batches) {
    try {
      return { list: (await json<{ data: Job[] }>('v1/jobs?limit=200')).data, batches };
    } catch (error) {
      if (!(error instanceof Failure && error.unavailable)) throw error;
      batches = true;
    }
  }
  return { list: (await json<{ data: Batch[] }>('v1/batches?limit=100')).data.map(jobOf), batches };
}

export async function startJob(job: JobStart): Promise<void> {
  const parts = new FormData();
  parts.append('purpose', 'batch');
  parts.append('file', job.file);
  const { id } = await json<{ id: string }>('v1/files', { body: parts });
  if (batches) {
    await json('v1/batches', { body: { input_file_id: id, endpoint: job.endpoint, completion_window: '24h' } });
    return;
  }
  const body = { name: job.name, input_file_id: id, priority: job.priority, window: job.window, ...(job.model ? { model: job.model } : {}) };
  await json('v1/jobs', { body });
}

export const hasEnded = (job: Job) => kEnded.includes(job.state);
export const jobPath = (id: string) => `v1/${batches ? 'batches' : 'jobs'}/${part(id)}`;

export interface JobLine {
  number: number;
  time: number;
  text: string;
}
export async function readJobLog(id: string, from: number): Promise<JobLine[]> {
  return (await json<{ data: JobLine[] }>(`${jobPath(id)}/log?from=${from}`)).data;
}

// Hands a stored file to the browser.
export async function download(id: string): Promise<void> {
  const url = URL.createObjectURL(await (await request(`v1/files/${part(id)}/content`)).blob());
  Object.assign(document.createElement('a'), { href: url, download: `${id}.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
