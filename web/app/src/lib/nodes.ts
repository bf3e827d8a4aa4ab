// GET /v1/nodes: the machines that run models for this server, itself among them.
import { json, part } from './api';

export interface Node {
  name: string;
  state: string;  // ready, lost, draining
  address: string;
  labels: Record<string, string>;
  version: string;
  memory: { total: number; free: number; budget: number };
  cpu_load: number;
  devices: { id?: string; name?: string }[];
  replicas: string[];
  last_seen_s: number;
  message?: string;
  local: boolean;
}

export const listNodes = async () => (await json<{ data: Node[] }>('v1/nodes')).data;
export const nodePath = (node: Node) => `v1/nodes/${part(node.name)}`;
// "UID" of "UID-0".
export const modelOfReplica = (id: string) => id.replace(/-\d+$/, '');
