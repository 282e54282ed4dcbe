// Pages that were written into one file: they know what was so then, and ask nobody.
import type { State, Trial, TrialPage, WholeTrial } from './api'
import { flatten } from './format'

interface Still { taken: string; home: string; leaf: string; answers: Record<string, unknown>; trials: WholeTrial[] }

const element = document.getElementById('still')

/** still is what such a file knows; undefined where there is a host to ask. */
export const still = element ? JSON.parse(element.textContent) as Still : undefined

/** leaf is where the pages' picture is. */
export const leaf = still?.leaf ?? '/leaf.svg'

/** told is the answer to a path of the API, undefined where the file has none. */
export function told(path: string): unknown {
  const { pathname, searchParams } = new URL(path, 'http://still')
  const trials = /\/trials(?:\/(.+))?$/.exec(pathname)
  if (trials?.[1]) return still!.trials.find(t => String(t.sequence) === trials[1] || t.id === trials[1])
  if (trials) return listed(searchParams)
  return still!.answers[pathname.endsWith('/importance') ? `${pathname} ${searchParams.get('metric') ?? ''}` : pathname]
}

function listed(query: URLSearchParams): TrialPage {
  const states = (query.get('state') ?? '').split(',').filter(Boolean) as State[], text = (query.get('text') ?? '').toLowerCase()
  const found = still!.trials.filter(t => (!states.length || states.includes(t.state)) && (!text || says(t, text)))
  const sort = query.get('sort') ?? 'trial', sign = query.get('reverse') === 'true' ? -1 : 1
  const by = found.map(t => ({ t, key: keyOf(t, sort) })).sort((a, b) => sign * compare(a.key, b.key) || sign * (a.t.sequence - b.t.sequence)).map(f => f.t)
  const offset = Number(query.get('offset') ?? 0)
  return { trials: by.slice(offset, offset + Number(query.get('limit') ?? 100)), total: found.length, next: '' }
}

const says = (t: Trial, text: string) => String(t.sequence) === text || t.id.startsWith(text) ||
  (JSON.stringify(t.parameters) + t.reason.text).toLowerCase().includes(text)

type Key = number | string | null

function keyOf(t: Trial, sort: string): Key {
  if (sort === 'trial') return t.sequence
  if (sort === 'metric') return t.metric === null ? null : best() * t.metric
  if (sort === 'duration') return t.start && t.end ? Date.parse(t.start) - Date.parse(t.end) : null
  const value = flatten(t.parameters).find(([name]) => name === sort)?.[1]
  return typeof value === 'number' || typeof value === 'string' ? value : value === undefined ? null : JSON.stringify(value)
}

/** best is what a metric is to be multiplied by for the best to come first. */
const best = () => (still!.answers[still!.home.replace('/e/', '/experiments/')] as { minimize: boolean }).minimize ? 1 : -1

/** compare puts what is missing last and numbers before texts. */
function compare(a: Key, b: Key): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return Number(typeof a === 'string') - Number(typeof b === 'string') || String(a).localeCompare(String(b))
}
