// What the API answers, and how it is asked. The shapes are those of /api/v1/openapi.json.
import { still, told } from './still'

export type State = 'WAITING' | 'RUNNING' | 'SUCCEEDED' | 'FAILED' | 'USER_CANCELED' | 'SYS_CANCELED' | 'EARLY_STOPPED' | 'UNKNOWN'
export type Status = 'RUNNING' | 'STOPPING' | 'STOPPED' | 'DONE' | 'REMOVING'
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

export interface Reason { code: string; text: string }
export interface Limits { concurrency: number; maxTrials: number | null; maxDuration: number | null }
export interface Best { id: string; sequence: number; metric: number }

interface Standing {
  id: string; name: string; status: Status; paused: boolean; reason: Reason
  trials: Record<State, number>; asked: number; remaining: number | null; minimize: boolean
  tags: Record<string, string>; limits: Limits; created: string | null; ended: string | null
}
export interface Listed extends Standing { best: Best | null; platforms: string[]; course: number[] }
export interface ExperimentPage { experiments: Listed[]; total: number; next: string }

export interface Algorithm { name?: string; className?: string; command?: string; classArgs?: Json }
export interface Experiment extends Standing {
  best: (Best & { parameters: Json; host: string }) | null
  duration: number
  searchSpace: Json
  tuner: Algorithm
  assessor: Algorithm | null
  platforms: { platform: string; command: string; codeDirectory: string }[]
  config: Json
  lastEvent: number
}

export interface Intermediate { step: number; metric: number | null; value: string; time: string | null }
export interface Trial {
  id: string; sequence: number; state: State; reason: Reason; attempts: number
  start: string | null; end: string | null; metric: number | null
  parameters: { [name: string]: Json }
  intermediate: Intermediate | null
  final: string | null
  host: string; url: string
}
export interface TrialPage { trials: Trial[]; total: number; next: string }
export interface Attempt {
  attempt: number; platform: string; host: string; url: string; phase: string; outcome: string; reason: Reason
  exit: { code: number; signal?: string; outside?: boolean; text?: string } | null
  submitted: string | null; start: string | null; end: string | null; directory: string
}
export interface WholeTrial extends Trial {
  experiment: string; source: string; asked: string | null
  intermediates: Intermediate[]; reported: number; attemptList: Attempt[]
}

export interface Results {
  sequence: number[]; state: State[]; metric: (number | null)[]
  asked: number[]; start: number[]; end: number[]
  parameters: Record<string, Json[]>
  metrics: Record<string, (number | null)[]>
}
export interface Curve { sequence: number; state: State; step: number[]; value: number[]; time: number[] }
export interface Curves { curves: Curve[]; total: number }
export interface Timeline {
  sequence: number[]; attempt: number[]; state: State[]; outcome: string[]
  platform: string[]; host: string[]; submit: number[]; start: number[]; end: number[]; reason: string[]
}

export interface Importance {
  parameters: { name: string; share: number }[]; trials: number; explained: number; method: string; least: number; upTo: number; pending: boolean
}
export interface Contender {
  id: string; name: string; status: Status; minimize: boolean; tuner: string; best: Best | null; results: number; gpus: boolean
  course: { result: number[]; seconds: number[]; hours: number[]; best: number[] }
}
export interface Comparison { experiments: Contender[] }

export interface GPU { index: number; name: string; uuid: string; memory?: number; used?: number; utilisation?: number; failed?: string; unknown?: string; requested?: string; processes?: { pid: number; trial?: string; name?: string; user?: string }[] | null }
export interface GPUs {
  hosts: { host: string; fault?: string; inventory: { gpus: GPU[] | null; none?: string; source?: string }; leases: { gpu: string; experiment?: string; trial?: string; user?: string }[] | null }[] | null
  waiting: { experiment: string; trial: string; sequence: number; gpus: number; reason: Reason }[]
}

/** Refused is an answer of the API that says what is wrong. */
export class Refused extends Error {
  constructor(readonly status: number, detail: string) { super(detail) }
}

/** read asks for a path below /api/v1. A host that is not there is a TypeError, as fetch has it. */
export async function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  if (still) {
    const known = told(path)
    if (known === undefined) throw new Refused(404, 'this file does not know that')
    return known as T
  }
  const answer = await fetch('/api/v1' + path, { signal, headers: { Accept: 'application/json' } })
  if (!answer.ok) throw new Refused(answer.status, await detailOf(answer))
  return answer.json() as Promise<T>
}

export async function detailOf(answer: Response): Promise<string> {
  const text = await answer.text()
  try {
    const problem = JSON.parse(text) as { detail?: string; errors?: { message: string; location: string }[] }
    const more = (problem.errors ?? []).map(e => `${e.location}: ${e.message}`).join('; ')
    return [problem.detail, more].filter(Boolean).join(': ') || answer.statusText
  } catch {
    return text.trim() || answer.statusText
  }
}
