// What computes on the server's machines: GET /v1/devices.
import { json } from './api';

export interface Device {
  id: string;
  kind: string;
  name: string;
  vendor: string;
  driver: string;
  total: number | null;
  free: number | null;
  load: number | null;
  state: string;
  message: string;
  facts: [string, string][];  // what else was said of it
}

export const devices = $state<{ list: Device[] }>({ list: [] });

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}
function textOf(value: unknown): string {
  return value == null ? '' : Array.isArray(value) ? value.map(textOf).join(', ') : typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export function readDevice(value: Record<string, unknown>): Device {
  const known = ['id', 'index', 'kind', 'name', 'vendor', 'driver', 'memory_total', 'memory_free', 'load', 'state', 'message'];
  return {
    id: textOf(value.id),
    kind: textOf(value.kind),
    name: textOf(value.name),
    vendor: textOf(value.vendor),
    driver: textOf(value.driver),
    total: numberOf(value.memory_total),
    free: numberOf(value.memory_free),
    load: numberOf(value.load),
    state: textOf(value.state) || 'ok',
    message: textOf(value.message),
    facts: Object.entries(value).filter(([key, each]) => !known.includes(key) && textOf(each) !== '').map(([key, each]) => [key, textOf(each)]),
  };
}

export interface Probe {
  kind: string;
  tool: string;
  result: string;
  message: string | null;
  devices: number;
}

interface Inventory {
  data: Record<string, unknown>[];
  cpu?: { architecture?: string; instruction_sets?: string[]; cores?: number; usable_threads?: number; numa?: unknown[] };
  probes?: Probe[];
}

// The processor's own facts stand beside it.
export async function askDevices(): Promise<{ devices: Device[]; probes: Probe[] }> {
  const { data, cpu, probes } = await json<Inventory>('v1/devices');
  const devices = data.map(readDevice);
  const own = devices.find((device) => device.kind === 'cpu');
  if (own && cpu) {
    const { architecture, instruction_sets, cores, usable_threads, numa } = cpu;
    const facts: [string, unknown][] = [['architecture', architecture], ['cores', cores], ['usable_threads', usable_threads], ['instruction_sets', instruction_sets], ['numa', numa?.length]];
    own.facts.push(...facts.filter(([, value]) => textOf(value) !== '').map(([key, value]): [string, string] => [key, textOf(value)]));
  }
  return { devices, probes: probes ?? [] };
}

export async function loadDevices(): Promise<void> {
  try {
    devices.list = (await askDevices()).devices;
  } catch {
    devices.list = [];  // a server that tells of none can still be told "auto"
  }
}
