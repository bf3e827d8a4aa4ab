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
  const known = ['id', 'kind', 'name', 'vendor', 'driver', 'memory_total_bytes', 'memory_free_bytes', 'load', 'state', 'message'];
  return {
    id: textOf(value.id),
    kind: textOf(value.kind),
    name: textOf(value.name),
    vendor: textOf(value.vendor),
    driver: textOf(value.driver),
    total: numberOf(value.memory_total_bytes),
    free: numberOf(value.memory_free_bytes),
    load: numberOf(value.load),
    state: textOf(value.state) || 'ok',
    message: textOf(value.message),
    facts: Object.entries(value).filter(([key, each]) => !known.includes(key) && textOf(each) !== '').map(([key, each]) => [key, textOf(each)]),
  };
}

export async function askDevices(): Promise<Device[]> {
  const answer = await json<{ data?: Record<string, unknown>[]; devices?: Record<string, unknown>[] }>('v1/devices');
  return (answer.data ?? answer.devices ?? []).map(readDevice);
}

export async function loadDevices(): Promise<void> {
  try {
    devices.list = await askDevices();
  } catch {
    devices.list = [];  // a server that tells of none can still be told "auto"
  }
}
