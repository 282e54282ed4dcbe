// Small things that several pages are made of.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { State, Status } from './api'
import { still } from './still'

const words: Record<string, string> = {
  USER_CANCELED: 'cancelled', SYS_CANCELED: 'cancelled by the system', EARLY_STOPPED: 'stopped early',
}
export const word = (state: string) => words[state] ?? state.toLowerCase()

export const states: State[] = ['RUNNING', 'WAITING', 'SUCCEEDED', 'FAILED', 'EARLY_STOPPED', 'USER_CANCELED', 'SYS_CANCELED', 'UNKNOWN']

export function Pill({ state, paused }: { state: State | Status; paused?: boolean }) {
  const shown = paused && state === 'RUNNING' ? 'PAUSED' : state
  return <span class={`pill ${shown.toLowerCase()}`}><i aria-hidden="true" />{word(shown)}</span>
}

/** Tags are what people have marked an experiment with. */
export function Tags({ of }: { of?: Record<string, string> }) {
  const keys = Object.keys(of ?? {}).sort()
  if (keys.length === 0) return null
  return <span class="tags" aria-label="tags">{keys.map(key => <span key={key}>{of![key] ? `${key}=${of![key]}` : key}</span>)}</span>
}

/** Progress is trials by how they are, as parts of all that there will be. */
export function Progress({ trials, of }: { trials: Record<State, number>; of: number }) {
  const order: State[] = ['SUCCEEDED', 'EARLY_STOPPED', 'FAILED', 'USER_CANCELED', 'SYS_CANCELED', 'RUNNING']
  const total = Math.max(of, order.reduce((sum, s) => sum + (trials[s] ?? 0), 0), 1)
  const text = order.filter(s => trials[s]).map(s => `${trials[s]} ${word(s)}`).join(', ') || 'nothing yet'
  return <div class="progress" role="img" aria-label={`of ${total}: ${text}`} title={text}>
    {order.map(s => trials[s] ? <span class={s.toLowerCase()} style={{ width: `${100 * trials[s] / total}%` }} /> : null)}
  </div>
}

/** Spark is a course in a word's room. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span class="faint">–</span>
  const low = Math.min(...values), high = Math.max(...values), width = 120, height = 30
  const y = (v: number) => high === low ? height / 2 : 3 + (height - 6) * (high - v) / (high - low)
  const points = values.map((v, i) => `${(i * width / (values.length - 1)).toFixed(1)},${y(v).toFixed(1)}`)
  return <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
    <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} />
    <polyline points={points.join(' ')} vector-effect="non-scaling-stroke" />
  </svg>
}

export function Card({ title, more, children, wide }: { title: string; more?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  return <section class={wide ? 'card wide' : 'card'} aria-label={title}>
    <header><h2>{title}</h2><div class="tools">{more}</div></header>
    {children}
  </section>
}

export function Tile({ name, children, note }: { name: string; children: ComponentChildren; note?: ComponentChildren }) {
  return <div class="tile"><dt>{name}</dt><dd>{children}</dd>{note && <dd class="note">{note}</dd>}</div>
}

/** Choice is one of a few, side by side. */
export function Choice<T extends string>({ label, of, value, onChange }: { label: string; of: [T, string][]; value: T; onChange: (value: T) => void }) {
  return <div class="choice" role="group" aria-label={label}>
    {of.map(([name, text]) => <button type="button" aria-pressed={name === value} onClick={() => onChange(name)}>{text}</button>)}
  </div>
}

/** Copy puts a text into the clipboard. */
export function Copy({ text, children, label }: { text: string; children: ComponentChildren; label?: string }) {
  const [copied, set] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = window.setTimeout(() => set(false), 1500)
    return () => window.clearTimeout(timer)
  }, [copied])
  return <button type="button" class="quiet" aria-label={label} onClick={() => navigator.clipboard.writeText(text).then(() => set(true))}>
    {copied ? 'copied' : children}
  </button>
}

/** useNow is the time, every so many milliseconds. */
export function useNow(every = 1000): number {
  const [now, set] = useState(still ? Date.parse(still.taken) : Date.now())
  useEffect(() => {
    if (still) return
    const timer = window.setInterval(() => { if (!document.hidden) set(Date.now()) }, every)
    return () => window.clearInterval(timer)
  }, [every])
  return now
}

/** useKept is a state that this browser remembers. */
export function useKept<T>(name: string, initial: T): [T, (value: T) => void] {
  const [value, set] = useState<T>(() => {
    try { return JSON.parse(localStorage.getItem(name) ?? '') as T } catch { return initial }
  })
  return [value, next => { set(next); try { localStorage.setItem(name, JSON.stringify(next)) } catch { /* a browser that keeps nothing */ } }]
}

/** useLatest is a value that callbacks which were made earlier see as it is now. */
export function useLatest<T>(value: T) {
  const ref = useRef(value)
  ref.current = value
  return ref
}
