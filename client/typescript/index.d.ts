/** A message of a conversation, as the API takes it. */
export interface Message {
  role: "user" | "assistant" | "system" | "tool";
  content: string;
}
export type Query = string | Message[];

/** The options of a request; docs/api.md says what each does. */
export interface RouteOptions {
  pool?: string;
  only?: (number | string)[];
  exclude?: (number | string)[];
  min_agents?: number;
  max_agents?: number;
  threshold?: number;
  sticky?: number;
  explain?: boolean;
  [option: string]: unknown;
}

/** The agents that one query needs, in the order they were chosen. */
export interface Answer {
  agents: number[];
  agent_names: string[];
  agent_keys: string[];
  abstained: boolean;
  confidence: number;
  scores: Record<string, number>;
  stop_reason: "stop" | "none" | "max_agents" | "abstained";
  model: string;
  decision_id: string | null;
  continues?: boolean | null;
  continues_confidence?: number | null;
  warnings?: string[];
  [field: string]: unknown;
}

export interface Agent {
  id: number;
  code: string;
  key: string;
  name: string;
  description: string;
  state: string;
  available: boolean;
  [field: string]: unknown;
}

export interface Outcome {
  pool?: string;
  rating?: number;
  comment?: string;
  agents_used?: number[];
  served?: { agent: number; backend?: number; tokens_in?: number; tokens_out?: number; latency_ms?: number }[];
}

export interface ClientOptions {
  pool?: string;
  /** Seconds, for a call with all its tries. */
  timeout?: number;
  retries?: number;
  fetch?: typeof fetch;
}

/** The server refused the call. */
export class Refused extends Error {
  status: number;
  code: string;
  field: string;
  hint: string;
}

/** Nobody answered in time, as often as was tried. */
export class Unreachable extends Error {}

export class Client {
  constructor(baseUrl: string, key: string, options?: ClientOptions);
  route(query: Query, options?: RouteOptions): Promise<Answer>;
  routeBatch(queries: Query[], options?: RouteOptions): Promise<Answer[]>;
  report(decisionId: string, success: boolean, more?: Outcome): Promise<void>;
  agents(pool?: string): Promise<Agent[]>;
}
